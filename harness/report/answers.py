"""Answers what a reader asks first, from a report's contents: on top of the page, and in the last lines printed.

The questions: which mapping is the fastest for a workload here, and how sure is that; how much faster than other
libraries is this project; how far are predictions from what was achieved; is performance portable, as PRL says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from harness.core.provenance import weakest
from harness.mapping import DEFAULT_STRATEGY
from harness.papers import Verdict
from harness.papers.number import Number
from harness.report.content import BaselineComparison, Content, HeatMap
from harness.report.tables import heat_maps
from harness.validate.rows import HERE

SB3 = "sb3"
"""The library that most readers know: comparisons with it come first."""
WITHIN_PERCENT = 5.0
"""An error that MAP VII-D states for its predictions, percent."""
PORTABILITY = "PRL-T3-"
"""Beginning of the keys of PRL's statements on portability that `portability` returns, with "portability" in them."""


@dataclass(frozen=True)
class FastestMapping:
    """The fastest of the mappings that were run for a workload, on measured devices of this machine.

    Attributes:
        loop: form of the training loop of all mappings, such as "fused"; empty if unknown.
        mapping: where learner, replay management and storage run, such as "torch-native-cpu".
        rate: its gradient steps per second.
        mappings: number of mappings that were run.
        next_mapping, next_rate: the fastest of the others.
        sure: how sure that is, in words: "best", or "no verdict" with the reason.
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
    choice: str


@dataclass(frozen=True)
class AgainstLibraries:
    """How this project compares with Stable-Baselines3, and with the fastest other library, on one workload.

    Attributes:
        sb3: the comparison with Stable-Baselines3; None if there is none.
        fastest: the comparison with the library whose throughput is nearest to, or furthest above, this project's;
            None if that is Stable-Baselines3.
        others: number of libraries that were timed.
    """

    workload: str
    batch_size: int | None
    sb3: BaselineComparison | None
    fastest: BaselineComparison | None
    others: int


@dataclass(frozen=True)
class PredictionErrors:
    """How far the default strategy's predicted throughputs are from achieved ones.

    Attributes:
        median_percent: median of the absolute errors, percent.
        trainings: number of predictions that were run.
        within: how many of them are at most `WITHIN_PERCENT` off.
        provenance: the weakest provenance among the errors.
    """

    median_percent: float
    trainings: int
    within: int
    provenance: str


def fastest_mappings(content: Content) -> list[FastestMapping]:
    """Return the fastest mapping of each workload and batch size at which several were run on measured devices.

    Args:
        content: contents of a report.
    """
    maps = [found for found in heat_maps(content.predictions) if found.devices == HERE]
    return [_fastest(found, size) for found in maps for size in found.batch_sizes]


def _fastest(found: HeatMap, size: int) -> FastestMapping:
    rates = {mapping: rate for (mapping, at), rate in found.achieved.items() if at == size}
    first, second, *_ = sorted(rates, key=lambda mapping: rates[mapping].value, reverse=True)
    chosen = found.chosen.get(size, "")
    level = [mapping for mapping in rates if mapping != first and not _above(rates[first], rates[mapping])]
    if (first, size) in found.noisy:
        sure = "no verdict: too noisy"
    elif level:
        sure = f"no verdict: {', '.join(sorted(level))} may be as fast"
    else:
        sure = "best"
    return FastestMapping(
        found.workload,
        size,
        found.loop,
        first,
        rates[first],
        len(rates),
        second,
        rates[second],
        sure,
        "this one" if chosen == first else chosen,
    )


def _above(one: Number, other: Number) -> bool:
    """Return whether a number is above another with both whole intervals; False if one has no interval."""
    return other.high is not None and one.above(other.high)


def against_libraries(content: Content) -> list[AgainstLibraries]:
    """Return the comparisons with other libraries that a reader asks for first, one line per workload and batch size.

    Args:
        content: contents of a report.
    """
    timed = sorted(
        (c for c in content.comparisons if c.ratio is not None), key=lambda c: (c.workload, c.batch_size or 0)
    )
    return [
        _against(workload, size, list(group))
        for (workload, size), group in groupby(timed, key=lambda c: (c.workload, c.batch_size))
    ]


def _against(workload: str, size: int | None, found: list[BaselineComparison]) -> AgainstLibraries:
    with_sb3 = [c for c in found if c.baseline.partition(",")[0] == SB3]
    fastest = min(found, key=lambda c: c.ratio.value if c.ratio else 0.0)
    sb3 = with_sb3[0] if with_sb3 else None
    libraries = {c.baseline.partition(",")[0] for c in found}
    return AgainstLibraries(workload, size, sb3, None if fastest is sb3 else fastest, len(libraries))


def prediction_errors(content: Content) -> PredictionErrors | None:
    """Return how far off the default strategy's predictions are whose mappings were run; None if none was run.

    Args:
        content: contents of a report.
    """
    judged = (p for p in content.predictions if p.strategy == DEFAULT_STRATEGY)
    errors = [p.error for p in judged if p.error is not None]
    if not errors:
        return None
    sizes = sorted(abs(error.value) for error in errors)
    middle = len(sizes) // 2
    return PredictionErrors(
        (sizes[middle] + sizes[~middle]) / 2,
        len(sizes),
        sum(size <= WITHIN_PERCENT for size in sizes),
        str(weakest(*(error.provenance for error in errors))),
    )


def portability(content: Content) -> Iterator[Verdict]:
    """Yield the verdicts on PRL's statements about portability over devices and over machines."""
    for verdict in content.verdicts:
        if verdict.key.startswith(PORTABILITY) and "portability" in verdict.key:
            yield verdict
