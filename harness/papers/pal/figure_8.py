"""Compares the convergence of this project with RLlib's and tianshou's on many cores (PAL VI-C, Fig. 8).

This project trains with C++ threads (`primitives.training.parallel`) on all cores of the machine, the other library
with as many threads. Both are timed in interleaved rounds, and trained to the same number of environment steps. If
this project learns no less, the ratio of the throughputs is the ratio of the times to the same return
(`harness.compare.rounds`).
"""

from functools import partial

import pandas as pd

from harness import workloads
from harness.compare import registry, rounds
from harness.compare.equal_steps import StepExtent
from harness.compare.registry import RLLIB
from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.core.suites import Suite
from harness.mapping import Mapping
from harness.measure.conditions import usable_cores
from harness.papers.base import Finding, Outcome
from harness.papers.cells import TierLimits, claim_cell
from harness.papers.comparisons import gains
from harness.runtime import native_threads
from harness.store.cell import Cell

PEERS = (*RLLIB, "tianshou")
WORKLOADS = ("cartpole-dqn", "ant-ddpg")
"""PAL's DQN on LunarLander has no native environment: the cart-pole takes its place."""
TIERS = ("full",)
OURS = rounds.OurSide(threads_native=True)
EXTENT = StepExtent(environment_steps=100_000, seeds=3, budget_s=600.0)
NEEDS_CONVERGENCE = (
    "returns over wall time next to RLlib's on several numbers of cores: `placerl reproduce --only PAL-F8 --tier full` "
    "compares C++ threads on all cores with RLlib and tianshou where their environments are built, comparisons have "
    "one core, and `placerl learn` returns by environment steps"
)
NEEDS_CORES = "the same on other numbers of cores: this machine's, all at once, are one point of the figure"


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that compare trainings: one per workload and library that can train it.

    There are none below the full tier.

    Args:
        tier: the tier of the plan (`quick`, `standard` or `full`), which says how much a run measures.
    """
    if tier.name not in TIERS:
        return []
    return [
        claim_cell(
            f"PAL-F8/{name}/{baseline}",
            tier.experiment_s + EXTENT.budget_s,
            partial(measure, name, baseline, tier.experiment_s),
        )
        for name in WORKLOADS
        for baseline in PEERS
        if registry.trains(baseline, workloads.load(name).algorithm.name)
    ]


def measure(
    name: str, baseline: str, budget_s: float, report: Report, extent: StepExtent = EXTENT
) -> list[Measurement]:
    """Compare the training throughput of this project's C++ threads with that of another library, on all cores.

    Args:
        name: name of the workload.
        baseline: the other library, as the name of its folder under `baselines/`; its virtual environment has to
            exist.
        budget_s: seconds of the timed rounds.
        report: called with the work done, the total work, and a text that names the current work.
        extent: for how many steps and seeds both are trained to compare their returns.

    Returns:
        Rows of suite `compare` with throughputs, their ratio and returns, from `rounds.compare`; a single row that
        was not run if the library's virtual environment does not exist, or if the C++ threads, at least an actor and
        a learner, would share the only core.
    """
    item, cores = workloads.load(name), len(usable_cores())
    settings = rounds.ComparisonSettings(threads=cores, ours=OURS, returns=extent)
    needs = "2 cores: an actor's and a learner's" if cores < 2 else ""
    if not registry.baseline_python(baseline).exists():
        needs = f"the environment of {baseline}: placerl baselines --build {baseline}"
    if needs:
        return [
            Measurement(
                suite=Suite.COMPARE,
                workload=name,
                primitive=rounds.ComparedPart.TRAINING,
                backend=baseline,
                device="cpu",
                batch_size=item.training.batch_size,
                quantity="throughput_ratio",
                provenance=Provenance.MEASURED,
                status="not_run",
                reason=f"not run: needs {needs}",
                details={"baseline": label_of(baseline), "part": "ours / theirs"},
            )
        ]
    mapping = Mapping.parse(native_threads.MAPPING)
    return rounds.compare(item, mapping, [baseline], budget_s=budget_s, progress=report, settings=settings)


def label_of(baseline: str) -> str:
    """Return the name of another library in the rows that compare it with this project's C++ threads.

    Args:
        baseline: name of the library, such as "tianshou".
    """
    return rounds.label(baseline, ours=OURS)


def convergence(frame: pd.DataFrame) -> Finding:
    """Check PAL Fig. 8: this project converges faster than RLlib.

    C++ threads that are slower than another library on the same cores refute the statement. Otherwise the outcome is
    "not run", because the figure needs several numbers of cores and this machine gives one.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    threaded = gains(frame, *map(label_of, PEERS))
    ours = tuple(gain.ratio for gain in (*threaded, *gains(frame, *RLLIB)))
    if any(gain.verdict == "slower" for gain in threaded):
        words = "C++ threads take longer than another library on the same cores."
        return Finding(Outcome.NOT_REPRODUCED, ours, words)
    return Finding(Outcome.NOT_RUN, ours, needs=NEEDS_CORES if threaded else NEEDS_CONVERGENCE)
