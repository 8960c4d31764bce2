"""Compares the convergence of this project with RLlib's and tianshou's on many cores (PAL VI-C, Fig. 8).

This project trains with C++ threads (`primitives.training.parallel`) on one core and on all cores of the machine, the
other library on the same cores: with a thread per core and, on several cores, also with one thread, because its small
networks may be slower with more. The faster of the two is judged. All are timed in interleaved rounds, and this project
and the library are trained to the same number of environment steps. If this project does not clearly learn less, the
ratio of the throughputs is the ratio of the times to the same return (`harness.compare.rounds`). Both take a gradient
step for each environment step (VI-A).
"""

from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from placerl.harness import workloads
from placerl.harness.compare import equal_steps, registry, rounds
from placerl.harness.compare.equal_steps import StepExtent
from placerl.harness.compare.parts import ONE_THREAD, ComparedPart, OurSide, label
from placerl.harness.compare.registry import RLLIB
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.papers.base import Claim, Finding, Outcome, decided
from placerl.harness.papers.cells import NIGHT_TIER, TierLimits, claim_cell
from placerl.harness.papers.comparisons import RATIO, Gain, gains
from placerl.harness.papers.evidence import number, records, select
from placerl.harness.papers.number import Number, from_text
from placerl.harness.papers.pal.figure_10_runs import INTERVAL, as_in_pal
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import ComparisonResult

PEERS = (*RLLIB, "tianshou")
WORKLOADS = {"lunarlander-dqn": 60_000, "ant-ddpg": 50_000, "ant-sac": 50_000}
"""Environment steps after which returns are compared, for each of PAL's workloads (VI-A). After 10,000 steps Ant's
returns are still near those of random actions."""
LEARNT = {"lunarlander-dqn": 100.0, "ant-ddpg": 750.0, "ant-sac": 750.0}
"""The mean return above which a task counts as learnt, half of that at which it is solved (`solved_return`). Where this
project did not learn it, a return that is no lower says nothing of convergence."""
CHANGES: MappingABC[str, MappingABC[str, object]] = {
    "lunarlander-dqn": {"algorithm.exploration_steps": 12_000}
}
"""What differs from the workloads besides the update interval. DQN explores less and less over a fifth of the steps
after which returns are compared: by the workload's own schedule, two of five actions would still be random then."""
TIERS = ("full", NIGHT_TIER)
OURS = OurSide(threads_native=True)
ROUNDS_S = 30.0
"""Seconds of the timed rounds of one comparison."""
RETURNS_S = {"lunarlander-dqn": 600.0, "ant-ddpg": 600.0, "ant-sac": 1000.0}
"""Seconds of the trainings whose returns are compared, for each workload."""
SEEDS = 3
NEEDS_CONVERGENCE = (
    "returns over wall time next to RLlib's on several numbers of cores: `placerl reproduce --only PAL-F8 --tier full` "
    "compares C++ threads on one and on all cores with RLlib and tianshou where their environments are built"
)
NEEDS_ONE_THREAD = "RLlib with one thread on the same cores, which may be the faster form: the same command"
NEEDS_CORES = "the same on other numbers of cores: those measured are one point of the figure"


def measure(
    name: str,
    baseline: str,
    all_cores: bool,
    report: Report,
    budget_s: float = ROUNDS_S,
    extent: StepExtent | None = None,
) -> Sequence[Row]:
    """Compare the training throughput of this project's C++ threads with that of another library, on the same cores.

    On one core, one C++ thread of this project acts and learns in turns. On several, the library also runs with one
    thread.

    Args:
        name: name of the workload, one of `WORKLOADS`.
        baseline: the other library, as the name of its folder under `baselines/`; its virtual environment has to
            exist.
        all_cores: whether both use all cores that this process may use, else the first of them.
        extent: for how many steps and seeds both are trained to compare their returns; by default `WORKLOADS`',
            `SEEDS` and `RETURNS_S`.

    Returns:
        Rows of suite `compare` with throughputs, their ratio and returns, from `rounds.compare`; a single row that
        was not run if the library's virtual environment does not exist, or if all cores are one.
    """
    item, usable = as_in_pal(name, CHANGES.get(name, {}), "PAL-F8"), usable_cores()
    cpus = usable if all_cores else usable[:1]
    settings = rounds.ComparisonSettings(
        threads=len(cpus),
        cpus=cpus,
        ours=OURS,
        returns=extent or StepExtent(WORKLOADS[name], SEEDS, RETURNS_S[name]),
        single_threaded=[baseline] if len(cpus) > 1 else [],
    )
    needs = "2 cores: an actor's and a learner's" if all_cores and len(cpus) < 2 else ""
    if not registry.baseline_python(baseline).exists():
        needs = f"the environment of {baseline}: placerl baselines {baseline}"
    if needs:
        return [
            ComparisonResult(
                suite=Suite.COMPARE,
                workload=name,
                primitive=ComparedPart.TRAINING,
                system=baseline,
                baseline=label_of(baseline, len(cpus)),
                part="ours / theirs",
                device="cpu",
                batch_size=item.training.batch_size,
                quantity="throughput_ratio",
                provenance=Provenance.MEASURED,
                status="not_run",
                reason=f"not run: needs {needs}",
            )
        ]
    mapping = Mapping.parse(NATIVE_MAPPING)
    return rounds.compare(item, mapping, [baseline], budget_s=budget_s, progress=report, settings=settings)


def label_of(baseline: str, cores: int) -> str:
    """Return the name of another library in the rows that compare it with this project's C++ threads."""
    return label(baseline, ours=OURS, cores=cores)


class _Side:
    """Another library on some cores, next to this project on the same ones.

    Attributes:
        peer: name of the library.
        cores: number of cores.
        forms: the gains over it by workload: with a thread per core and, on several cores, with one thread.
        best: the gains over it by workload, in the form in which it is faster. A workload is left out if
            the library was not compared in each form.
        slower: the gains that say that this project is slower, whatever the form.
    """

    def __init__(self, frame: pd.DataFrame, peer: str, cores: int) -> None:
        self.peer, self.cores = peer, cores
        names = (peer,) if cores == 1 else (peer, peer + ONE_THREAD)
        self.forms = [
            {_workload(gain): gain for gain in gains(frame, label_of(name, cores))} for name in names
        ]
        self.best = {
            name: min((form[name] for form in self.forms), key=lambda gain: gain.ratio.value)
            for name in self.forms[0]
            if all(name in form for form in self.forms)
        }
        self.slower = [gain for form in self.forms for gain in form.values() if gain.verdict == "slower"]

    @property
    def listed(self) -> list[Gain]:
        """The gains that a finding shows: those in the best form, and what refutes the statement where these do not."""
        refuted = {name for name, gain in self.best.items() if gain.verdict == "slower"}
        return [*self.best.values(), *(gain for gain in self.slower if _workload(gain) not in refuted)]


def _workload(gain: Gain) -> str:
    return gain.ratio.quantity.partition(",")[0]


def _our_return(frame: pd.DataFrame, gain: Gain) -> Number | None:
    """Return this project's mean return in the comparison that a gain is from; None if none was measured."""
    ratio = frame.loc[gain.ratio.rows[0]]
    same = {name: ratio[name] for name in ("run", "workload", "baseline")}
    rows = select(frame, suite=Suite.COMPARE, quantity=equal_steps.RETURN, part="ours, return", **same)
    return number(records(rows)[-1], "mean return") if len(rows) else None


def _at_pals_interval(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of comparisons on PAL's workloads in which this project trained at PAL's update interval.

    Comparisons on other workloads have the same names, and earlier code trained LunarLander at the workload's interval.
    """
    rows = frame[(frame["suite"] == Suite.COMPARE) & frame["workload"].isin(list(WORKLOADS))]
    chosen = {
        (row.run, row.workload, row.baseline)
        for row in records(rows[rows["part"] == "ours"])
        if row.gradient_steps and round(row.environment_steps / row.gradient_steps) == INTERVAL
    }
    names = zip(rows["run"], rows["workload"], rows["baseline"], strict=True)
    return rows[np.array([name in chosen for name in names], bool)]


def _cores(frame: pd.DataFrame) -> list[int]:
    """Return the numbers of cores to which compared systems were confined."""
    rows = records(select(frame, suite=Suite.COMPARE, quantity=RATIO))
    return sorted({int(cores) for row in rows if (cores := row.threads) is not None})


def _above(higher: Number, lower: Number) -> bool:
    """Return whether the whole interval of one number is above that of another."""
    return lower.high is not None and higher.above(lower.high)


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that compare trainings: per workload, number of cores and library.

    A library is left out where it cannot train the algorithm. There are no cells below the full tier.
    """
    if tier.name not in TIERS:
        return []
    return [
        replace(
            claim_cell(
                f"PAL-F8/{name}/{baseline}/{words}",
                ROUNDS_S + RETURNS_S[name],
                partial(measure, name, baseline, all_cores),
            ),
            look=1,  # no seed follows
        )
        for name in WORKLOADS
        for words, all_cores in (("one-core", False), ("all-cores", True))
        for baseline in PEERS
        if registry.trains(baseline, workloads.load(name).algorithm.name)
    ]


class ConvergesFasterThanRllib(Claim):
    """Checks PAL Fig. 8: this project converges faster than RLlib, by a factor that increases with the cores.

    A comparison is "faster" only if this project has the higher throughput, learnt the task (`LEARNT`) and does not
    clearly learn less in the same number of environment steps. Then the ratio of the throughputs is that of the times
    to the same return. Where it did not learn the task, there is no verdict on the workload and number of cores. Only
    comparisons with RLlib are judged, as the statement is about it; those with other libraries are listed. A library
    counts with the number of threads with which it is faster: one, or one per core. If either form is faster than this
    project, so is the library.
    """

    key, place, position = "PAL-F8", "VI-C, Fig. 8", 1
    statement = "Faster convergence than RLlib, more so with more cores"
    published = from_text("PAL.convergence_speedup_low", "PAL.convergence_speedup_high")
    needs = NEEDS_CONVERGENCE
    measured_by = (cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        frame = _at_pals_interval(frame)
        sides = [_Side(frame, peer, cores) for peer in PEERS for cores in _cores(frame)]
        ours = tuple(gain.ratio for side in sides for gain in side.listed)
        others = sorted(
            label_of(side.peer, side.cores) for side in sides if side.slower and side.peer not in RLLIB
        )
        listed = "".join(f" Slower, and not judged: next to {label}." for label in others)
        judged = [side for side in sides if side.peer in RLLIB]
        if any(side.slower for side in judged):
            words = f"C++ threads take longer than RLlib on the same cores.{listed}"
            return Finding(Outcome.NOT_REPRODUCED, ours, words)
        by_cores: dict[int, dict[str, Gain]] = {}
        for side in judged:
            if side.best:
                by_cores.setdefault(side.cores, {}).update(side.best)
        if len(by_cores) < 2:
            needs = NEEDS_CORES if by_cores else NEEDS_CONVERGENCE
            if any(side.forms[0] and not side.best for side in judged):
                needs = NEEDS_ONE_THREAD
            return Finding(Outcome.NOT_RUN, ours, listed.strip(), needs=needs)
        fewest, most = min(by_cores), max(by_cores)
        returns = {
            (name, cores): _our_return(frame, gain)
            for cores, by_name in by_cores.items()
            for name, gain in by_name.items()
        }
        learnt = {place for place, found in returns.items() if found and found.above(LEARNT[place[0]])}
        both = [name for name in WORKLOADS if {(name, fewest), (name, most)} <= learnt]
        rises = sum(_above(by_cores[most][name].ratio, by_cores[fewest][name].ratio) for name in both)
        falls = sum(_above(by_cores[fewest][name].ratio, by_cores[most][name].ratio) for name in both)
        faster = sum(by_cores[cores][name].verdict == "faster" for name, cores in learnt)
        unlearnt = "".join(
            f" No verdict on {name} on {cores} core{'s' * (cores > 1)}: this project's mean return, "
            f"{found or 'unknown'}, is not above {LEARNT[name]:g}, half of the return that solves the task."
            for (name, cores), found in returns.items()
            if (name, cores) not in learnt
        )
        words = (
            "Faster than RLlib, with whichever of one thread and a thread per core makes it faster, with the task "
            f"learnt and returns no lower after the same steps, in {faster} of {len(returns)} comparisons. From "
            f"{fewest} to {most} cores the factor rises in {rises} of {len(both)} workloads and falls in {falls}."
            f"{unlearnt} PAL has 8 cores and a GPU.{listed}"
        )
        shown = faster == len(returns) and both and rises == len(both)
        return Finding(decided(shown, falls), ours, words)
