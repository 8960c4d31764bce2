"""Writes the page of seconds to a return in `docs/results`, of the last committed run that has them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from placerl.harness.compare.arrivals import COLUMNS
from placerl.harness.core.provenance import Provenance
from placerl.harness.report.machine_facts import in_a_line
from placerl.harness.report.markdown_text import code, escaped
from placerl.harness.report.seconds_figure import Race, races
from placerl.harness.store.reference import Reference

PAGE = Path("docs", "results", "seconds.md")
PICTURE = Path("docs", "pictures", "seconds.svg")


def last_races(references: Sequence[Reference]) -> tuple[Reference, list[Race]] | None:
    """Return the committed run with races that began last, and its races; None if none has any."""
    found = [(one, drawn) for one in references if (drawn := races(one.measurements))]
    return max(found, key=lambda one: one[0].run.started_at, default=None)


def page(committed: Reference, drawn: Sequence[Race]) -> str:
    """Return the page in Markdown."""
    run = committed.run
    machine = escaped(in_a_line(run.machine))
    lines = [
        "# Seconds to a return",
        "",
        "Seconds of training until half of the seeds had reached a goal's return and held it for five evaluations of "
        "20 greedy episodes. One system trains at a time, on one thread. A training that failed never arrived. Start: "
        "seconds before a system learns (imports, compilation, first steps), in no other column.",
        "",
        f"This project trains the shipped workload, other libraries at their own best settings. {Provenance.MEASURED} "
        f"in the run {code(committed.name)}, begun {escaped(run.started_at[:10])}, on {machine}; "
        "`placerl bench time-to-return` measures it anew.",
        "",
        f"![Seconds until half of the seeds held a return, by goal and system](../pictures/{PICTURE.name})",
        "",
    ]
    for race in drawn:
        lines += _table(race)
    return "\n".join(lines)


def _table(race: Race) -> Iterator[str]:
    yield from (f"## {race.name}: {race.threshold:g}", "")
    yield from (f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}")
    for name, arrival in race.systems.items():
        yield f"| {' | '.join([name, *arrival.cells()])} |"
    yield ""
    yield from (f"- {name}: {escaped(source or '')}" for name, source in race.settings_from.items())
    yield ""
