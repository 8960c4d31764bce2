"""Defines the tiers, each of which says how much of the papers' experiments a run measures, and for how long.

There are three: `quick`, `standard` and `full`. Times are wall-clock budgets on 2 cores.
"""

from dataclasses import dataclass

from placerl.harness import workloads as workload
from placerl.harness.compare.equal_steps import StepExtent
from placerl.harness.compare.registry import RLLIB, trains
from placerl.harness.core.errors import COMMAND_LINE, OptionName, UserError


@dataclass(frozen=True)
class Tier:
    """A tier: the workloads and batch sizes that a run measures, and its time budgets.

    Attributes:
        name: `quick`, `standard` or `full`.
        workloads: names of the workloads that it runs.
        batch_sizes: batch sizes at which each workload's primitives are timed.
        profile_s: budget for timing the primitives of one workload at one batch size, seconds.
        experiment_s: budget of one experiment that only a paper's claim needs, seconds.
        run_s: budget of one training run after its warm-up, seconds.
        compare_s: budget of the timed rounds of one comparison with one baseline, seconds.
        returns: how long both systems of a comparison are trained to compare what they learn; None: not at all.
        seeds: training runs per workload.
        validate_s: budget for running every mapping of one workload at one batch size, to check the predictions,
            seconds; 0: not run.
        validated: the workloads and batch sizes at which every mapping is run; empty: all of the tier's grid
            (`harness.validate.plan.GRIDS`).
        baselines: the other libraries that each workload is compared with, if they train its algorithm
            (`compared_with`).
        shipped: whether comparisons with libraries are also made on the environments that this project steps by
            default, where these are not the libraries'.
        own_batch_sizes: whether primitives are also timed at the batch sizes that each workload lists.
        simulated_replay_sizes: further batch sizes at which only the replay of the simulated device is simulated.
    """

    name: str
    workloads: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    profile_s: float
    experiment_s: float
    run_s: float
    compare_s: float
    seeds: int
    returns: StepExtent | None = None
    validate_s: float = 0.0
    validated: tuple[tuple[str, int], ...] = ()
    baselines: tuple[str, ...] = ("sb3",)
    shipped: bool = False
    own_batch_sizes: bool = False
    simulated_replay_sizes: tuple[int, ...] = ()

    def compared_with(self, algorithm: str) -> tuple[str, ...]:
        """Return the tier's baselines (other libraries) that train an algorithm, such as "dqn"."""
        return tuple(name for name in self.baselines if trains(name, algorithm))


SLICE = ("cartpole-ddpg", "cartpole-dqn", "mountaincar-ddpg", "hopper-ddpg")
BATCH_SIZES = (32, 256, 2048, 16384)  # MAP Table V's, in steps of 8

TIERS = {
    tier.name: tier
    for tier in (
        Tier(
            "quick",
            SLICE,
            (256,),
            profile_s=15,
            experiment_s=10,
            run_s=15,
            compare_s=22,
            seeds=1,
            returns=StepExtent(12_000, seeds=3, budget_s=17),
            validate_s=48,
            validated=(
                ("cartpole-ddpg", 32),
                ("cartpole-ddpg", 256),
                ("cartpole-dqn", 32),
                ("cartpole-dqn", 256),
            ),
            simulated_replay_sizes=(32, 2048, 16384),
        ),
        Tier(
            "standard",
            SLICE,
            BATCH_SIZES,
            profile_s=30,
            experiment_s=25,
            run_s=90,
            compare_s=60,
            seeds=3,
            returns=StepExtent(50_000, seeds=3, budget_s=90),
            validate_s=90,
            baselines=("sb3", *RLLIB),
            shipped=True,
        ),
        Tier(
            "full",
            tuple(workload.names()),
            BATCH_SIZES,
            profile_s=180,
            experiment_s=180,
            run_s=1200,
            compare_s=600,
            seeds=5,
            returns=StepExtent(1_000_000, seeds=5, budget_s=1800),
            validate_s=600,
            baselines=("sb3", *RLLIB),
            shipped=True,
            own_batch_sizes=True,
        ),
    )
}

NIGHT = Tier(
    "night",
    (),
    (),
    profile_s=0,
    experiment_s=0,
    run_s=0,
    compare_s=0,
    seeds=0,
)
"""The tier of `placerl reproduce` alone, which is none of `TIERS`: it times nothing."""
NOT_AT_NIGHT = (
    "pong-dqn of MAP-F10 and PRL-F9, in this tier: a million of its gradient steps take 8 hours of a core and more; "
    "its trainings need a CUDA device, and are pieces of the tier full",
)
"""What the tier leaves out on every machine, with the reason."""


def tier(name: str, *more: Tier) -> Tier:
    """Return the tier with this name: "quick", "standard", "full", or one of `more`.

    Raises:
        UserError: there is no such tier.
    """
    known = TIERS | {each.name: each for each in more}
    if name not in known:
        raise UserError(COMMAND_LINE, OptionName("tier"), name, ", ".join(known))
    return known[name]
