"""Computes what each page of the report shows, and renders it. Each page answers one question."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from placerl.harness import papers
from placerl.harness.compare.arrivals import COLUMNS as COLUMNS_OF_ARRIVALS
from placerl.harness.compare.night_learning import by_task, over_all
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.papers import Outcome, Verdict
from placerl.harness.papers.device_figures import by_figure
from placerl.harness.papers.device_table import COLUMNS
from placerl.harness.papers.evidence import number, records
from placerl.harness.papers.notes import notes
from placerl.harness.papers.number import from_text
from placerl.harness.plan import plan
from placerl.harness.report import (
    answers,
    devices,
    machine_facts,
    night_figure,
    other_gpus,
    plots,
    roofline_plot,
    seconds_figure,
    what_if,
)
from placerl.harness.report.content import Content
from placerl.harness.report.drawing import same_drawing
from placerl.harness.report.formatting import MARKS, commands, row_ranges, show, whole
from placerl.harness.report.hardware_agent import BOARD_CLOCK_MHZ, hardware_agent, time_to_learn
from placerl.harness.report.names import people_s_kind, people_s_name
from placerl.harness.report.rows.mappings import PredictedThroughput
from placerl.harness.report.rows.primitives import PrimitiveTime
from placerl.harness.report.rows.runs import Fact
from placerl.harness.report.tables import LAST_EPISODES, heat_maps, optional_size
from placerl.harness.validate import predicted_regret

FOLDER = Path(__file__).parent / "templates"
SETTINGS = {
    name: name for name in ("loop", "threads", "sharing", "capacity", "fanout", "aligned", "seed")
} | {"null": "second timing"}
"""Columns that tell apart rows of evidence with the same labels, and their names for readers."""
PLATFORMS = "platforms"  # folder of the other machines' pages
INDEX = "index"
CHANGES = "changes"
QUESTIONS = {
    "mappings": "Where should it run?",
    "predictions": "Was the prediction right?",
    "libraries": "How does it compare with other libraries?",
    "papers": "What do the papers say, and does it hold?",
    "devices": "CPU, GPU or FPGA: what do the papers' figures show?",
    "primitives": "What is the limit of each primitive?",
    "machine": "What is this machine, and how noisy is it?",
}
"""The pages next to the first one, each with the question that it answers."""
MENU = {
    INDEX: "In short",
    "mappings": "Where to run",
    "predictions": "Predicted and achieved",
    "libraries": "Other libraries",
    "papers": "Papers",
    "devices": "Three devices",
    "primitives": "Limits",
    "machine": "Machine and noise",
}


@cache
def environment() -> jinja2.Environment:
    """Return the Jinja environment that renders the templates: it escapes all values and fails on an unknown name.

    It is cached, because it holds the compiled templates.
    """
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"show": show, "whole": whole, "row_ranges": row_ranges}
    templates.filters |= {"people": people_s_name, "kind": people_s_kind}
    templates.filters |= {"in_a_line": machine_facts.in_a_line, "commands": commands}
    templates.filters |= {"needs_kind": _needs_kind, "pair": lambda text: (text, text)}
    templates.filters["css_class"] = lambda text: re.sub(r"\W+", "-", str(text))
    return templates


def _needs_kind(verdict: Verdict) -> str:
    """Return what would decide a claim: "gpu", "other", or "nothing" more than there is."""
    needed = f"{verdict.needs} {verdict.finding.decides}".strip()
    return "gpu" if "CUDA device" in needed else "other" if needed else "nothing"


def primitive_tables(times: tuple[PrimitiveTime, ...]) -> list[dict[str, object]]:
    """Return the tables of primitives (timed operations) and their plots, one table per workload, for the template.

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
            rows.setdefault((t.primitive, t.backend, t.device), {})[t.batch_size] = t
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


def pages_of(content: Content) -> list[str]:
    """Return the names of a machine's pages, the first page first."""
    return [INDEX, *QUESTIONS, *([CHANGES] if content.reference else [])]


def _shared(content: Content, here: str, home: str, root: str = "") -> dict[str, object]:
    """Return what every page shows: the run, the processor, the menu, and the link to all machines."""
    return {
        "home": home,
        "root": root,
        "here": here,
        "pages": MENU | ({CHANGES: "Changes"} if content.reference else {}),
        "content": content,
        "processor": _processor(content),
        "papers": papers.titles(),
        "style": Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        "outcomes": list(Outcome),
    }


def _index(content: Content, _others: Sequence[Content]) -> dict[str, object]:
    judged = [p for p in content.predictions if p.achieved and p.strategy == DEFAULT_STRATEGY]
    return {
        "errors": answers.prediction_errors(content),
        "simulated_errors": answers.prediction_errors(content, simulated=True),
        "regret": answers.regrets(content),
        "sb3": answers.over_sb3(content),
        "chosen": answers.chosen_mappings(content),
        "scatter": _judged_plot(judged),
        "by_paper": {
            key: Counter(v.finding.outcome for v in content.verdicts if v.paper == key)
            for key in papers.titles()
        },
        "counts": _counts(content),
        "machine_in_a_line": machine_in_a_line(content),
        "questions": QUESTIONS,
    }


def _judged_plot(judged: Sequence[PredictedThroughput]) -> Markup | None:
    """Return predictions of one model against what was achieved, by workload; None without any."""
    limit_percent = from_text("MAP.optimum_gap")[0].value
    return plots.predicted_against_achieved(judged, limit_percent) if judged else None


def _script(name: str) -> Markup:
    return Markup((FOLDER / name).read_text(encoding="utf-8"))


def machine_in_a_line(content: Content) -> str:
    """Return the processor, its cores, its memory and the accelerators as text."""
    return machine_facts.in_a_line(content.run.machine) if content.run else "–"


def _mappings(content: Content, _others: Sequence[Content]) -> dict[str, object]:
    times = what_if.tables(content.measurements)
    times += what_if.with_other_gpus(content.measurements)
    times += what_if.published(dict.fromkeys(str(table["workload"]) for table in times))
    # In a script element, "<" could end it; JSON may write it as an escape.
    data = Markup(json.dumps(times).replace("<", "\\u003c")) if times else None
    judged = other_gpus.judged(content.measurements, content.run)
    return {
        "judged": [cell for cell in judged if cell.has_board],
        "judged_columns": predicted_regret.COLUMNS,
        "judged_summary": predicted_regret.summary(judged),
        "what_if": data,
        "script": _script("what_if.js"),
        "fastest": answers.fastest_mappings(content),
        "alone": [chosen for chosen in answers.chosen_mappings(content) if chosen.alone],
        "marks": MARKS,
        "heat_maps": [
            (plots.heat_map(heat_map), heat_map, plots.chosen_not_run(heat_map))
            for heat_map in heat_maps(content.predictions)
        ],
    }


def _predictions(content: Content, _others: Sequence[Content]) -> dict[str, object]:
    achieved = [p for p in content.predictions if p.shown]
    judged = [p for p in achieved if p.strategy == DEFAULT_STRATEGY]
    return {
        "errors": answers.prediction_errors(content),
        "simulated_errors": answers.prediction_errors(content, simulated=True),
        "default_strategy": DEFAULT_STRATEGY,
        "within": answers.WITHIN_PERCENT,
        "judged": len(judged),
        "noisy_achieved": sum(p.achieved_status == "too_noisy" for p in judged),
        "scatter": _judged_plot(judged),
        "by_model": plots.errors_by_model(achieved),
        "workloads": sorted({p.workload for p in achieved}),
        "models": sorted({p.strategy for p in achieved}),
        "loops": sorted({p.loop for p in achieved if p.loop}),
        "script": _script("filter.js"),
    }


def _by_workload(rows: Iterable[Any]) -> list[tuple[str, list[Any]]]:
    """Return the rows of each workload, which may lie apart: each suite or command adds its own."""

    def workload(row: Any) -> str:
        return str(row.workload)

    return [(name, list(group)) for name, group in groupby(sorted(rows, key=workload), key=workload)]


def _libraries(content: Content, _others: Sequence[Content]) -> dict[str, object]:
    by_workload = _by_workload(content.curves)
    night = night_figure.compared(content.measurements)
    races = seconds_figure.races(records(content.measurements))
    return {
        "against": answers.against_libraries(content),
        "gains": plots.gains(content.comparisons) if any(c.ratio for c in content.comparisons) else None,
        "curves": [
            (
                plots.learning_curves(name, group, LAST_EPISODES),
                sorted({str(c.last.provenance) for c in group}),
            )
            for name, group in by_workload
        ],
        "last_episodes": LAST_EPISODES,
        "most_episodes": plots.MOST_EPISODES,
        "races": races,
        "races_figure": seconds_figure.figure(races),
        "arrival_columns": COLUMNS_OF_ARRIVALS,
        "night_figure": night_figure.figure(night),
        "night_goals": by_task(night),
        "night_all": over_all(night),
    }


def _papers(content: Content, _others: Sequence[Content]) -> dict[str, object]:
    return {
        "portable": list(answers.portability(content)),
        "counts": _counts(content),
        "marks": MARKS,
        "notes": notes(),
        "provenances": list(Provenance),
        "short_titles": {key: f"{key}: {title.partition(':')[0]}" for key, title in papers.titles().items()},
        "script": _script("filter.js"),
    }


def _devices(content: Content, _others: Sequence[Content]) -> dict[str, object]:
    shown = devices.of_content(content)
    return {
        "devices": shown,
        "figures": [(figure, plots.of_devices(figure)) for figure in shown.figures],
        "columns": COLUMNS,
        "marks": MARKS,
    }


def _primitives(content: Content, _others: Sequence[Content]) -> dict[str, object]:
    run, curve = hardware_agent()
    return {
        "agent_run": run,
        "agent_time": time_to_learn()[-1],
        "board_clock_mhz": BOARD_CLOCK_MHZ,
        "agent_curve": plots.learning_curves(curve.workload, [curve], LAST_EPISODES),
        "last_episodes": LAST_EPISODES,
        "primitive_tables": primitive_tables(content.primitives),
        "rooflines": rooflines(content),
        "roofline_tables": _by_workload(content.roofline),
    }


def _machine(content: Content, others: Sequence[Content]) -> dict[str, object]:
    return {
        "fact_groups": _grouped(content.facts),
        "machines": [
            (f"{PLATFORMS}/{other.slug}/index.html", other, _processor(other), _counts(other))
            for other in others
        ],
    }


def _changes(_content: Content, _others: Sequence[Content]) -> dict[str, object]:
    return {}


_CONTEXTS: dict[str, Callable[[Content, Sequence[Content]], dict[str, object]]] = {
    INDEX: _index,
    "mappings": _mappings,
    "predictions": _predictions,
    "libraries": _libraries,
    "papers": _papers,
    "devices": _devices,
    "primitives": _primitives,
    "machine": _machine,
    CHANGES: _changes,
}


def render(content: Content, page: str = INDEX, others: Sequence[Content] = (), home: str = "") -> str:
    """Return a page of a report on a machine as HTML.

    Args:
        home: relative path of the folder whose pages link to all machines; empty if that is this folder.
    """
    template = environment().get_template(f"{page}.html.j2")
    return template.render(**_shared(content, page, home), **_CONTEXTS[page](content, others))


def papers_figures(content: Content) -> dict[str, Markup]:
    """Return the figures drawn in the papers' own axes, by the key of the claim; only those that have data."""
    drawn = {
        verdict.key: plots.in_the_paper_s_axes(
            verdict, content.everything if verdict.claim.everywhere else content.measurements
        )
        for verdict in content.verdicts
    }
    return {key: plot for key, plot in drawn.items() if plot is not None}


def render_claims(
    content: Content, figures: Mapping[str, Markup], home: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the key and the HTML page of each claim, a statement of a paper that is checked.

    A page shows the published and this project's numbers, the measurements used, and how to repeat them.
    """
    template, shared = environment().get_template("claim.html.j2"), _shared(content, "papers", home, "../")
    device_figures = {claim.key: some[0].key for some in by_figure() for claim in some}
    verdicts = content.verdicts
    for before, verdict, after in zip((None, *verdicts), verdicts, (*verdicts[1:], None), strict=False):
        rows = records(content.everything.loc[list(verdict.rows)])
        page = template.render(
            **shared,
            verdict=verdict,
            before=before,
            after=after,
            plot=plots.published_and_ours(verdict),
            own_plot=figures.get(verdict.key),
            evidence=[
                (row, optional_size(row.batch_size), _setting(row), number(row, row.quantity)) for row in rows
            ],
            lenders=content.lenders(verdict),
            device_figure=device_figures.get(verdict.key),
            tier=plan.tier_for(verdict.claim, content.run.tier if content.run else ""),
        )
        yield verdict.key, page


def _setting(row: Any) -> str:
    """Return the settings of a row of evidence as text, such as "threads 2, fanout 16"."""
    stated = {**row._asdict(), **(row.notes or {}), **(row.parameters or {})}
    settings = {word: stated.get(name) for name, word in SETTINGS.items()}
    return ", ".join(
        word if value is True else f"{word} {value}"
        for word, value in settings.items()
        if value not in (None, False)
    )


def render_papers(
    content: Content, figures: Mapping[str, Markup], home: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the key and the HTML page of each paper: its figures in the paper's own axes, and its statements."""
    template, shared = environment().get_template("paper.html.j2"), _shared(content, "papers", home, "../")
    for key in papers.titles():
        verdicts = [verdict for verdict in content.verdicts if verdict.paper == key]
        drawn: dict[str, tuple[Markup, list[Verdict]]] = {}  # claims about one figure share it
        for verdict in verdicts:
            if (plot := figures.get(verdict.key)) is not None:
                drawn.setdefault(same_drawing(plot), (plot, []))[1].append(verdict)
        about_devices = {some[0].key: some[0].place for some in by_figure() if some[0].paper == key}
        yield (
            key,
            template.render(
                **shared,
                key=key,
                verdicts=verdicts,
                figures=list(drawn.values()),
                device_figures=about_devices,
            ),
        )
