"""Tiers: how much of the papers' grids a run measures, and how long it may take.

Times are wall-clock budgets on 2 cores; what a tier leaves out is named in its plan.
"""

from dataclasses import dataclass

from harness.errors import UserError


@dataclass(frozen=True)
class Tier:
    """How much one tier measures.

    Attributes:
        name: `quick`, `standard` or `full`.
        workloads: names of the workloads it runs.
        batch_sizes: batch sizes of the primitive table.
        profile_s: budget of one primitive table (one workload, one batch size), seconds.
        run_s: budget of one training run after its warm-up, seconds.
        compare_s: budget of one comparison with one baseline, seconds.
        seeds: training runs a workload.
    """

    name: str
    workloads: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    profile_s: float
    run_s: float
    compare_s: float
    seeds: int


SLICE = ("cartpole-ddpg", "cartpole-dqn", "hopper-ddpg")

TIERS = {
    tier.name: tier
    for tier in (
        Tier("quick", SLICE, (32, 256, 2048), profile_s=10, run_s=25, compare_s=45, seeds=1),
        Tier("standard", SLICE, (32, 256, 2048, 16384), profile_s=60, run_s=300, compare_s=300, seeds=3),
        Tier("full", SLICE, (32, 256, 2048, 16384), profile_s=180, run_s=3600, compare_s=1200, seeds=5),
    )
}


def tier(name: str) -> Tier:
    """The tier of that name.

    Raises:
        UserError: there is none.
    """
    if name not in TIERS:
        raise UserError(source="command line", field="--tier", found=name, allowed=", ".join(TIERS))
    return TIERS[name]
