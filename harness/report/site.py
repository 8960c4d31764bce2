"""Writes the report as HTML files that need no server and no network.

There is an `index.html`, which begins with answers to what a reader asks first, and one page per claim, a statement of
a paper that is checked. If a store holds runs of several machines, the report has one part per machine.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import jinja2
from markupsafe import Markup

from harness import papers
from harness.core.provenance import Provenance
from harness.papers import Outcome
from harness.papers.evidence import number, records
from harness.papers.number import from_text
from harness.plan import plan
from harness.report import answers, plots, reference, roofline_plot
from harness.report.content import Content, Fact, PrimitiveTime
from harness.report.files import write_atomically
from harness.report.formatting import MARKS, row_ranges, show, whole
from harness.report.reading import read_all
from harness.report.tables import LAST_EPISODES, heat_maps, optional_size

FOLDER = Path(__file__).parent / "templates"
PLATFORMS = "platforms"  # folder of the other machines' pages


def environment() -> jinja2.Environment:
    """Return the Jinja environment that renders the templates: it escapes all values and fails on an unknown name."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"show": show, "whole": whole, "row_ranges": row_ranges}
    made.filters["css_class"] = lambda text: re.sub(r"\W+", "-", str(text))
    return made


def primitive_tables(times: tuple[PrimitiveTime, ...]) -> list[dict[str, object]]:
    """Return the tables of primitives (timed operations) and their plots, one table per workload, for the template.

    Args:
        times: times of the primitives, sorted by workload.

    Returns:
        For each workload "workload", "sizes" (batch sizes), "rows" (one per primitive, backend and device, with the
        times by batch size) and "plots" (one per primitive).
    """
    tables: list[dict[str, object]] = []
    for workload, group in groupby(times, key=lambda t: t.workload):
        mine = list(group)
        sizes = sorted({t.batch_size for t in mine if t.batch_size is not None})
        rows: dict[tuple[str, ...], dict[int | None, PrimitiveTime]] = {}
        for t in mine:
            rows.setdefault((t.primitive, t.backend, t.variant, t.device), {})[t.batch_size] = t
        drawn = []
        for primitive, some in groupby(mine, key=lambda t: t.primitive):
            cells = list(some)
            provenances = sorted({str(t.time.provenance) for t in cells if t.time})
            if provenances:
                svg = plots.time_over_batch(workload, primitive, cells)
                timed = [t for t in cells if t.time]
                noisy = sum(t.status == "too_noisy" for t in timed)
                drawn.append({"svg": svg, "provenances": provenances, "noisy": noisy, "points": len(timed)})
        tables.append({"workload": workload, "sizes": sizes, "rows": rows, "plots": drawn})
    return tables


def rooflines(content: Content) -> list[Markup]:
    """Return one roofline plot (rates below a device's upper limits) per device and backend.

    Devices and backends without a point that has operations per byte are left out.
    """
    drawn = []
    ordered = sorted(content.roofline, key=lambda p: (p.device, p.backend))
    for (device, _), group in groupby(ordered, key=lambda p: (p.device, p.backend)):
        roofs = [roof for roof in content.roofs if roof.device == device]
        drawn.append(roofline_plot.roofline(list(group), roofs))
    return [plot for plot in drawn if plot is not None]


def _grouped(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        groups.setdefault(fact.group, []).append(fact)
    return groups


def _counts(content: Content) -> Counter[Outcome]:
    return Counter(v.finding.outcome for v in content.verdicts)


def _processor(content: Content) -> str:
    return next((fact.value for fact in content.facts if (fact.group, fact.name) == ("cpu", "model")), "–")


def _shared(content: Content, home: str) -> dict[str, object]:
    """Return what every page shows: run, machine, versions, noise, and the link to all machines."""
    return {
        "home": home,
        "content": content,
        "papers": papers.titles(),
        "style": Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        "fact_groups": _grouped(content.facts),
    }


def render(content: Content, others: Sequence[Content] = (), home: str = "") -> str:
    """Return the main page of a report on a machine as HTML.

    Args:
        content: contents of the page.
        others: contents of other machines of the store; the page links to their pages.
        home: relative path of the page that links to all machines; empty if that is this page.
    """
    optimum_gap = from_text("MAP.optimum_gap")[0].value
    achieved = [p for p in content.predictions if p.achieved is not None]
    by_workload = [(name, list(group)) for name, group in groupby(content.curves, key=lambda c: c.workload)]
    return (
        environment()
        .get_template("index.html.j2")
        .render(
            **_shared(content, home),
            fastest=answers.fastest_mappings(content),
            against=answers.against_libraries(content),
            errors=answers.prediction_errors(content),
            within=answers.WITHIN_PERCENT,
            portable=list(answers.portability(content)),
            outcomes=list(Outcome),
            counts=_counts(content),
            machines=[
                (f"{PLATFORMS}/{other.slug}/index.html", other, _processor(other), _counts(other))
                for other in others
            ],
            marks=MARKS,
            provenances=list(Provenance),
            script=Markup((FOLDER / "filter.js").read_text(encoding="utf-8")),
            primitive_tables=primitive_tables(content.primitives),
            rooflines=rooflines(content),
            roofline_tables=[(n, list(g)) for n, g in groupby(content.roofline, key=lambda p: p.workload)],
            noisy_achieved=sum(p.achieved_status == "too_noisy" for p in achieved),
            scatter=plots.predicted_against_achieved(achieved, optimum_gap) if achieved else None,
            heat_maps=[
                (plots.heat_map(found), found, plots.chosen_not_run(found))
                for found in heat_maps(content.predictions)
            ],
            gains=plots.gains(content.comparisons) if any(c.ratio for c in content.comparisons) else None,
            curves=[plots.learning_curves(name, group, LAST_EPISODES) for name, group in by_workload],
            last_episodes=LAST_EPISODES,
            most_episodes=plots.MOST_EPISODES,
        )
    )


def render_claims(content: Content, home: str = "") -> Iterator[tuple[str, str]]:
    """Yield the key and the HTML page of each claim, a statement of a paper that is checked.

    A page shows the published and this project's numbers, the measurements used, and how to repeat them.

    Args:
        content: contents of the pages.
        home: relative path of the page that links to all machines; empty if that is the main page of this machine.
    """
    template, shared = environment().get_template("claim.html.j2"), _shared(content, home)
    verdicts = content.verdicts
    for before, verdict, after in zip((None, *verdicts), verdicts, (*verdicts[1:], None), strict=False):
        rows = records(content.everything.loc[list(verdict.rows)])
        page = template.render(
            **shared,
            verdict=verdict,
            before=before,
            after=after,
            plot=plots.published_and_ours(verdict),
            own_plot=plots.in_the_paper_s_axes(
                verdict, content.everything if verdict.claim.everywhere else content.measurements
            ),
            evidence=[(row, optional_size(row.batch_size), number(row, row.quantity)) for row in rows],
            tier=plan.tier_for(verdict.claim, content.run.tier if content.run else ""),
        )
        yield verdict.key, page


def write(store: Path, folder: Path) -> tuple[Path, Content]:
    """Write the report on a store: the pages of its last run's machine, and a folder of pages for each other machine.

    Args:
        store: path of the store.
        folder: output folder; created if it does not exist.

    Returns:
        The main page's path, and its contents.

    Raises:
        UserError: the store does not exist, or the folder cannot be written.
    """
    first, *others = read_all(store, reference.load())
    for content in others:
        _write_platform(folder / PLATFORMS / content.slug, content, home="../../index.html")
    return _write_platform(folder, first, others), first


def _write_platform(folder: Path, content: Content, others: Sequence[Content] = (), home: str = "") -> Path:
    for key, page in render_claims(content, f"../{home}" if home else ""):
        _write(folder / "claims" / f"{key}.html", page)
    return _write(folder / "index.html", render(content, others, home))


def _write(path: Path, page: str) -> Path:
    write_atomically(path, lambda target: target.write_text(page, encoding="utf-8"))
    return path
