"""Answers what a reader asks first, from a report's contents: on top of the page, and in the last lines printed.

The questions: which mapping is the fastest for a workload here, and how sure is that; how much faster than other
libraries is this project; how far are predictions from what was achieved; is performance portable, as PRL says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.mapping import DEFAULT_STRATEGY, PAPERS, VALIDATED
from placerl.harness.mapping.strategies.map_tpds23 import BUSY_THREADS
from placerl.harness.papers import Verdict
from placerl.harness.papers.number import Number
from placerl.harness.report.content import Content
from placerl.harness.report.rows.libraries import BaselineComparison
from placerl.harness.report.rows.mappings import HeatMap, PredictedThroughput
from placerl.harness.report.tables import heat_maps
from placerl.harness.validate.rows import HERE

SB3 = "sb3"
"""The library that most readers know: comparisons with it come first."""
WITHIN_PERCENT = 5.0
"""A small error, percent; MAP VII-D states it for achieved throughput below its optimum."""
PORTABILITY = "PRL-T3-"
"""Beginning of the keys of PRL's statements on portability that `portability` returns, with "portability" in them."""
BEST = "best"
"""Beginning of the answer that a mapping is the fastest; what decided follows after a colon."""
ALONE = "no verdict: no other mapping was run"
"""Verdict on a chosen mapping that was run without another."""


@dataclass(frozen=True)
class FastestMapping:
    """The fastest of the mappings that were run for a workload, on measured devices of this machine.

    Attributes:
        loop: form of the training loop of all mappings, such as "fused"; empty if unknown.
        mapping: where learner, replay management and storage run, such as "torch-native-cpu".
        rate: its gradient steps per second.
        mappings: number of mappings that were run.
        next_mapping, next_rate: the fastest of the others.
        sure: how sure that is, in words: "best" or "no verdict", each with the reason.
        level: this mapping, and those that may be as fast.
        choice: what the default strategy chose from predictions alone: "this one", another mapping, or "" if unknown.
    """

    workload: str
    batch_size: int
    loop: str
    mapping: str
    rate: Number
    mappings: int
    next_mapping: str
    next_rate: Number
    sure: str
    level: frozenset[str]
    choice: str


@dataclass(frozen=True)
class AgainstLibraries:
    """How this project compares with Stable-Baselines3, and with the fastest other library, on one workload.

    Whole trainings are compared, with both sides as they are.

    Attributes:
        sb3: the comparison with Stable-Baselines3; None if there is none.
        fastest: the comparison with the library, of those other than Stable-Baselines3, whose training speed is nearest
            to, or furthest above, this project's; None if there is none.
        others: number of libraries that were timed, Stable-Baselines3 included.
    """

    workload: str
    batch_size: int | None
    sb3: BaselineComparison | None
    fastest: BaselineComparison | None
    others: int


@dataclass(frozen=True)
class PredictionErrors:
    """How far the default strategy's predicted throughputs are from achieved ones, on measured or simulated devices.

    Attributes:
        median_percent: median of the absolute errors, percent.
        trainings: number of predictions that were run.
        within: how many of them are at most `WITHIN_PERCENT` off.
        judged: how many of them were run in enough rounds for an interval of the error.
        beyond: how many of those are more than `WITHIN_PERCENT` off with their whole interval.
        provenance: the weakest provenance among the errors.
    """

    median_percent: float
    trainings: int
    within: int
    judged: int
    beyond: int
    provenance: str

    @property
    def certainty(self) -> str:
        """Return in words how many errors are larger than the machine's noise can explain."""
        return (
            f"{self.judged} have an interval, {self.beyond} of them clearly more than {WITHIN_PERCENT:g}% off"
        )


@dataclass(frozen=True)
class ChosenMapping:
    """What the default strategy chose from predictions alone for a workload, on measured devices of this machine.

    Attributes:
        prediction: the chosen mapping, its predicted throughput, and the achieved one if it was run.
        sure: whether it is the fastest of those that were run: "best", "not the best", "no verdict" or "not run",
            each with the reason.
    """

    prediction: PredictedThroughput
    sure: str

    @property
    def alone(self) -> bool:
        """Return whether it was run, and no other mapping was."""
        return self.sure == ALONE


@dataclass(frozen=True)
class Regrets:
    """How much throughput the default strategy's choices lose compared with the best mappings that were run.

    Attributes:
        median_percent, most_percent: median and maximum of the regrets, percent.
        choices: number of choices.
        provenance: the weakest provenance among the regrets.
    """

    median_percent: float
    most_percent: float
    choices: int
    provenance: str


@dataclass(frozen=True)
class OverSb3:
    """The range of this project's throughputs over those of Stable-Baselines3.

    Attributes:
        least, most: the smallest and the largest ratio.
        comparisons: number of workloads and batch sizes compared.
        learning: how many of them have the verdict "faster": with returns that are not clearly lower.
    """

    least: float
    most: float
    comparisons: int
    learning: int


def fastest_mappings(content: Content) -> list[FastestMapping]:
    """Return the fastest mapping of each workload and batch size at which several were run on measured devices."""
    maps = [heat_map for heat_map in heat_maps(content.predictions) if heat_map.devices == HERE]
    return [_fastest(heat_map, size) for heat_map in maps for size in heat_map.batch_sizes]


def _fastest(heat_map: HeatMap, size: int) -> FastestMapping:
    rates = {mapping: rate for (mapping, at), rate in heat_map.achieved.items() if at == size}
    contenders = heat_map.contenders(size)
    first = heat_map.best(size)
    second = max(
        sorted((contenders - {first}) or (rates.keys() - {first})), key=lambda other: rates[other].value
    )
    chosen = heat_map.chosen.get(size, "")
    level = {other for other in contenders - {first} if not _above(rates[first], rates[other])}
    if contenders == {first}:
        sure = f"{BEST}: every other mapping was clearly slower in the rounds that they shared"
    elif (first, size) in heat_map.noisy:
        level, sure = contenders, "no verdict: too noisy"
    elif level:
        sure = f"no verdict: {', '.join(sorted(level))} may be as fast"
    else:
        sure = f"{BEST}: its interval is above that of {second}"
    return FastestMapping(
        heat_map.workload,
        size,
        heat_map.loop,
        first,
        rates[first],
        len(rates),
        second,
        rates[second],
        sure,
        frozenset(level) | {first},
        "this one" if chosen == first else chosen,
    )


def chosen_mappings(content: Content) -> list[ChosenMapping]:
    """Return what the default strategy chose for each workload and batch size, on measured devices, in float32.

    A choice that was made and run in a validation hides another one for the same workload and batch size.
    """
    chosen: dict[tuple[str, int], PredictedThroughput] = {}
    for p in content.predictions:
        if (
            p.strategy == DEFAULT_STRATEGY
            and HERE in p.chosen_among
            and p.batch_size is not None
            and p.in_floats
        ):
            key = (p.workload, p.batch_size)
            if key not in chosen or p.loop or not chosen[key].loop:
                chosen[key] = p
    fastest = {(f.workload, f.batch_size): f for f in fastest_mappings(content)}
    return [ChosenMapping(p, _is_fastest(p, fastest.get(key))) for key, p in sorted(chosen.items())]


def _is_fastest(chosen: PredictedThroughput, fastest: FastestMapping | None) -> str:
    if chosen.achieved is None:
        return f"not run: needs placerl validate --only {chosen.workload}/{chosen.batch_size}"
    if fastest is None:
        return ALONE
    if chosen.mapping in fastest.level:
        return fastest.sure
    return f"not the best: {fastest.mapping} is faster"


def regrets(content: Content) -> Regrets | None:
    """Return the regrets of the default strategy's choices on measured devices in the loop that it describes.

    Returns:
        The regrets; None if no choice was validated.
    """
    loop = str(VALIDATED[DEFAULT_STRATEGY].loop)
    losses = [
        choice.regret
        for choice in content.choices
        if choice.strategy == DEFAULT_STRATEGY and choice.devices == HERE and choice.loop == loop
    ]
    if not losses:
        return None
    percents = [100 * regret.value for regret in losses]
    return Regrets(
        median(percents), max(percents), len(losses), str(weakest(*(regret.provenance for regret in losses)))
    )


def over_sb3(content: Content) -> OverSb3 | None:
    """Return the range of this project's throughputs over those of Stable-Baselines3; None if none was compared."""
    compared = [
        (a.sb3.ratio.value, a.sb3.verdict) for a in against_libraries(content) if a.sb3 and a.sb3.ratio
    ]
    if not compared:
        return None
    ratios = [ratio for ratio, _ in compared]
    return OverSb3(
        min(ratios), max(ratios), len(compared), sum(verdict == "faster" for _, verdict in compared)
    )


def _above(one: Number, other: Number) -> bool:
    """Return whether a number is above another with both whole intervals; False if one has no interval."""
    return other.high is not None and one.above(other.high)


def against_libraries(content: Content) -> list[AgainstLibraries]:
    """Return the comparisons with other libraries that a reader asks for first, one line per workload and batch size.

    Only whole trainings count, with both sides as they are.
    """
    timed = whole_trainings(content)
    return [
        _against(workload, size, list(group))
        for (workload, size), group in groupby(timed, key=lambda c: (c.workload, c.batch_size))
    ]


def whole_trainings(content: Content) -> list[BaselineComparison]:
    """Return the comparisons of whole trainings with a ratio, with both sides as they are, by workload and batch size.

    In other comparisons a part of a training, a feature or a number of cores follows a comma
    (`harness.compare.parts.label`).
    """
    return sorted(
        (c for c in content.comparisons if c.ratio is not None and "," not in c.baseline),
        key=lambda c: (c.workload, c.batch_size or 0),
    )


def _against(workload: str, size: int | None, compared: list[BaselineComparison]) -> AgainstLibraries:
    sb3 = next((c for c in compared if c.baseline == SB3), None)
    others = (c for c in compared if c.baseline != SB3)
    fastest = min(others, key=lambda c: c.ratio.value if c.ratio else 0.0, default=None)
    return AgainstLibraries(workload, size, sb3, fastest, len(compared))


def prediction_errors(
    content: Content, *, simulated: bool = False, strategy: str = DEFAULT_STRATEGY
) -> PredictionErrors | None:
    """Return how far off a strategy's predictions are whose mappings were run; None if none was run.

    Args:
        simulated: whether to return the errors of trainings with a simulated device, instead of those on measured
            devices alone.
    """
    judged = (
        p
        for p in content.predictions
        if p.strategy == strategy
        and p.achieved is not None
        and (p.achieved.provenance != Provenance.MEASURED) == simulated
    )
    errors = [p.error for p in judged if p.error is not None]
    if not errors:
        return None
    sizes = [abs(error.value) for error in errors]
    return PredictionErrors(
        median(sizes),
        len(sizes),
        sum(size <= WITHIN_PERCENT for size in sizes),
        sum(error.low is not None and error.high is not None for error in errors),
        sum(error.above(WITHIN_PERCENT) or error.below(-WITHIN_PERCENT) for error in errors),
        str(weakest(*(error.provenance for error in errors))),
    )


def formula_errors(content: Content) -> str:
    """Return how far off the papers' own formulas are on measured devices, in words; empty if none was checked.

    Each formula is compared with trainings in the loop that it describes. MAP's gives each part a core of its own.
    """
    off = [
        f"{errors.median_percent:.0f}% ({paper})"
        for strategy, paper in PAPERS.items()
        if (errors := prediction_errors(content, strategy=strategy))
    ]
    if not off:
        return ""
    cores = content.run.machine.get("cpu", {}).get("usable_cores") if content.run else None
    few = cores is not None and cores < BUSY_THREADS
    shared = f"; MAP's keeps {BUSY_THREADS} threads busy, on {cores} cores" if few else ""
    return f"{', '.join(off)} off in the median, each in the loop that it describes{shared}"


def portability(content: Content) -> Iterator[Verdict]:
    """Yield the verdicts on PRL's statements about portability over devices and over machines."""
    for verdict in content.verdicts:
        if verdict.key.startswith(PORTABILITY) and "portability" in verdict.key:
            yield verdict
