"""Times other libraries with their own replay and with this project's replay plugged in (PAL VI-F).

For each of the two replays the library trains in a worker process, in its own virtual environment
(`baselines/adapter_worker.py`). In every round it does one job with its own replay and two jobs with this project's.
These two compare this project's replay with itself, which shows how much the machine's noise changes the times (A/A).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import placerl.primitives
from placerl.harness.compare import registry
from placerl.harness.compare.protocol import FailureKind, Worker, WorkerFailure
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed
from placerl.harness.core.suites import Suite
from placerl.harness.measure import rows as summary_rows
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import conditions, usable_cores
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.store.rows import AdapterResult

SUITE = Suite.BENCH_ADAPTERS
THROUGHPUT, GAIN, NULL = "gradient_steps_per_s", "throughput_ratio", "null_ratio"
WORKER = registry.BASELINES / "adapter_worker.py"
CAPACITY = 10**6  # PAL's capacity
WARM_UP_STEPS = 1000  # environment steps; gradient steps begin after 500 of them
JOB_S = 0.4
START_LIMIT_S = 300.0
JOB_LIMIT_S = 120.0


@dataclass(frozen=True)
class Pair:
    """A library and one of its algorithms, whose speed with both replays is measured.

    Attributes:
        library: a folder under `baselines/`.
        algorithm: the algorithm's name in the library's `adapter.py`.
        continuous: whether its actions are continuous.
        missing: why this algorithm cannot be measured; empty if it can.
    """

    library: str
    algorithm: str
    continuous: bool = False
    missing: str = ""

    @property
    def name(self) -> str:
        """Return the name under which the rows of this pair are stored: library and algorithm, such as "sb3 dqn"."""
        return f"{self.library} {self.algorithm}"


PAIRS = (
    Pair("sb3", "dqn"),
    Pair("sb3", "ddpg", continuous=True),
    Pair("tianshou", "dqn"),
    Pair("tianshou", "ddpg", continuous=True),
    Pair("pfrl", "dqn"),
    Pair(
        "pfrl",
        "ddpg",
        continuous=True,
        missing="PFRL's agents for continuous actions take no prioritised replay",
    ),
    Pair("rllib", "dqn"),
    Pair("rllib", "sac", continuous=True),
    Pair("torchrl", "dqn"),
)


@contextmanager
def importable_primitives() -> Iterator[Path]:
    """Provide a temporary folder from which another virtual environment can import `placerl.primitives`.

    It holds links to the package's files, which may lie in several folders, such as source and compiled extension.
    """
    with TemporaryDirectory() as name:
        folder = Path(name) / "placerl" / "primitives"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").symlink_to(placerl.__file__)
        for source in map(Path, placerl.primitives.__path__):
            for entry in source.iterdir():
                target = folder / entry.name
                if (entry.suffix in (".py", ".so") or entry.is_dir()) and not target.exists():
                    target.symlink_to(entry)
        yield Path(name)


def start(library: str, package: Path) -> Worker:
    """Start a library's worker process, which can train with the library's replay or with this project's.

    Args:
        library: a folder under `baselines/`; its environment is created if it does not exist.
        package: folder from `importable_primitives`.

    Raises:
        WorkerFailure: the environment cannot be made.
    """
    python = registry.build_baseline(library)
    command = [str(python), str(WORKER), str(registry.BASELINES / library / "adapter.py")]
    variables = {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    return Worker(command, environment_variables=variables)


class _Side:
    """One replay in one library during training."""

    def __init__(self, pair: Pair, replay: str, capacity: int, package: Path) -> None:
        self.worker = start(pair.library, package)
        try:
            job = {"algorithm": pair.algorithm, "replay": replay, "capacity": capacity}
            self.answer = self.worker.ask_json(job, START_LIMIT_S)
            self._ask(WARM_UP_STEPS, START_LIMIT_S)
            first = 100
            self.environment_steps = max(1, round(JOB_S * first / self._ask(first, START_LIMIT_S)[1]))
        except BaseException:
            self.worker.close()
            raise

    def _ask(self, environment_steps: int, limit_s: float) -> tuple[int, float]:
        answer = self.worker.ask_json({"environment_steps": environment_steps}, limit_s)
        return int(answer["gradient_steps"]), float(answer["wall_s"])

    def step_s(self, environment_steps: int) -> float:
        """Return seconds per gradient step over one job, including the whole training loop.

        Raises:
            WorkerFailure: there is no valid answer, or the job took no gradient step.
        """
        gradient_steps, wall_s = self._ask(environment_steps, JOB_LIMIT_S)
        if gradient_steps < 1:
            said = f"took no gradient steps in {environment_steps} environment steps"
            raise WorkerFailure(FailureKind.INVALID, said)
        return wall_s / gradient_steps


def measure(
    pair: Pair, rounds: int, budget_s: float, package: Path, report: Report, capacity: int = CAPACITY
) -> Sequence[AdapterResult]:
    """Measure the gradient steps per second of a library's algorithm with both replays, and their ratio.

    Args:
        rounds: most rounds; at least 15 are run whatever the budget, the fewest for a verdict.
        budget_s: no further round begins after this many seconds, not counting the start of the workers.

    Returns:
        Rows of suite "bench-adapters": the throughput with each replay, `throughput_ratio` (the throughput with this
        project's replay divided by that with the library's own, with a verdict) and `null_ratio` (this project's
        replay over itself). If nothing could be measured, one row of status "failed" or "not_run" gives the reason.
    """
    if pair.missing:
        return [_absent(pair, "not_run", pair.missing)]
    sides: dict[str, _Side] = {}
    try:
        for replay in ("own", "ours"):
            report(0, 1, f"starting {pair.library} {pair.algorithm}, {replay} replay")
            sides[replay] = _Side(pair, replay, capacity, package)
        times_s = _rounds(sides, rounds, budget_s, report)
    except WorkerFailure as failure:
        return [_absent(pair, "failed", str(failure))]
    finally:
        for side in sides.values():
            side.worker.close()
    columns = {
        "capacity": capacity,
        "cores": len(usable_cores()),
        "version": sides["ours"].answer["version"],
        "note": sides["ours"].answer["note"],
        "own_is_prioritised": pair.library != "sb3",
        "timed": HowTimed(conditions=conditions()),
    }
    return _rows(pair, columns, times_s)


def _rounds(sides: dict[str, _Side], rounds: int, budget_s: float, report: Report) -> dict[str, list[float]]:
    """Return seconds per gradient step, in interleaved rounds; all sides do jobs of the same length."""
    steps = min(side.environment_steps for side in sides.values())
    turns = {"ours": sides["ours"], "own": sides["own"], "again": sides["ours"]}
    return in_rounds(
        {name: partial(side.step_s, steps) for name, side in turns.items()},
        Rounds(max(rounds, statistics.FEWEST_PAIRS), fewest=statistics.FEWEST_PAIRS, budget_s=budget_s),
        report=report,
    )


def _absent(pair: Pair, status: str, reason: str) -> AdapterResult:
    return AdapterResult(
        **_common(pair),
        quantity=GAIN,
        provenance=Provenance.MEASURED,
        status=status,
        reason=reason.replace(f"{registry.BASELINES.parent}/", ""),
    )


def _common(pair: Pair) -> dict[str, Any]:
    return {
        "suite": SUITE,
        "workload": pair.name,
        "primitive": "training",
        "backend": "native",
        "device": "cpu",
        "library": pair.library,
        "algorithm": pair.algorithm,
        "continuous": pair.continuous,
    }


def _rows(pair: Pair, columns: Mapping[str, Any], times_s: dict[str, list[float]]) -> Sequence[AdapterResult]:
    common = {**_common(pair), **columns}
    rows = [
        summary_rows.summary_row(
            AdapterResult,
            [1 / time_s for time_s in times_s[replay]],
            **{**common, "backend": pair.library if replay == "own" else "native"},
            quantity=THROUGHPUT,
            replay=replay,
        )
        for replay in ("own", "ours")
    ]
    outcome = statistics.compare(times_s["ours"], times_s["own"], times_s["again"])
    judged = {"verdict": outcome.verdict, "why_no_verdict": outcome.reason, "pairs": outcome.pairs}
    for quantity, times in ((GAIN, outcome.ratio), (NULL, outcome.null)):
        assert times is not None
        rows.append(summary_rows.gain(AdapterResult, times, **common, quantity=quantity, **judged))
    return rows
