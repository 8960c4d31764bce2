"""Writes the headline results of a committed reference run: README's results, a picture of predictions, and verdicts.

To be run after a new reference run is saved (`harness.store.reference`):

    python -m placerl.harness.report.headline standard

It rewrites what stands between two comments of README.md, `docs/pictures/predicted-achieved.svg`,
`docs/pictures/rates.svg`, and `docs/results/<name>.md`, which lists every verdict that the current checks give for the
run, and `docs/results/notes.md`, the notes on the papers, which depend on no run, `docs/results/verdicts.md`, the
verdicts over all committed runs, `docs/results/devices.md`, their CPU, GPU and FPGA next to each other, with its
pictures, `docs/results/lent-gpus.md`, the best mappings for the CPU of one run with the GPU of another, and
`docs/results/seconds.md`, the seconds to a return of the last run that has them, with its picture.
With `--page` it writes these pages alone.
"""

import argparse
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from markupsafe import Markup

from placerl.harness import workloads
from placerl.harness.compare.equal_steps import FASTER
from placerl.harness.core.errors import UserError
from placerl.harness.core.files import write_atomically
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.papers.machines import JointVerdict
from placerl.harness.papers.notes import notes
from placerl.harness.papers.number import Number, from_text
from placerl.harness.report import (
    all_evidence,
    answers,
    devices,
    devices_markdown,
    other_gpus,
    pages,
    plots,
    seconds_figure,
    seconds_markdown,
)
from placerl.harness.report.content import Content
from placerl.harness.report.markdown_text import code, escaped
from placerl.harness.report.reading import read
from placerl.harness.store import reference
from placerl.harness.store.reference import Reference
from placerl.harness.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- headline results: begin -->\n", "<!-- headline results: end -->\n"
WIDTH_PX = 560  # of the picture
_RETURNS = {FASTER: "with returns that are not clearly lower"}
"""What a verdict says to a reader; others are said as they are."""
PICTURE = Path("docs", "pictures", "predicted-achieved.svg")
RATES = Path("docs", "pictures", "rates.svg")
NOTES = Path("docs", "results", "notes.md")
VERDICTS = Path("docs", "results", "verdicts.md")
DEVICES = Path("docs", "results", "devices.md")
LENT_GPUS = Path("docs", "results", "lent-gpus.md")


def content_of(committed: Reference) -> Content:
    """Return the contents of a report on a committed reference run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        with Store.open(path) as store:
            committed.add_to(store)
        return read(path)


def page_of(name: str) -> Path:
    """Return the path of a reference run's page of verdicts, relative to the root of the repository."""
    return Path("docs", "results", f"{name}.md")


def results(content: Content, name: str, joint: Sequence[JointVerdict]) -> str:
    """Return the headline results in Markdown, one a line, in words that need no glossary.

    Args:
        joint: the verdicts over all committed runs.
    """
    begun = f", begun {escaped(content.run.started_at[:10])}" if content.run else ""
    lines = [
        f"From the reference run [`{name}`]({page_of(name).as_posix()}){begun} on "
        f"{escaped(pages.machine_in_a_line(content))}; 95% intervals in brackets:",
        "",
        *(f"- {escaped(result)}." for result in _results(content)),
        f"- Checks what five papers state about such placements, over [all evidence]({VERDICTS.as_posix()}): "
        f"{all_evidence.counted(joint)}.",
    ]
    return "\n".join(lines) + "\n"


def _results(content: Content) -> Iterator[str]:
    if errors := answers.prediction_errors(content):
        said = answers.formula_errors(content)
        yield (
            f"Predicts a training's speed from times of its parts, {_off(errors)}"
            + (f"; the papers' own formulas: {said} (modelled)" if said else "")
        )
    if errors := answers.prediction_errors(content, simulated=True):
        yield f"Predicts it with a simulated FPGA too, {_off(errors)}"
    if regret := answers.regrets(content):
        yield (
            f"Chooses where learner, replay and data are, from predictions alone: {regret.median_percent:.1f}% slower "
            f"than the best placement that was run in the median of {regret.choices} choices, at most "
            f"{regret.most_percent:.1f}% ({regret.provenance})"
        )
    for compared in answers.against_libraries(content):
        of_shipped = (
            compared.workload in workloads.names()
        )  # `placerl bench training` has workloads of its own
        if of_shipped and compared.sb3 and compared.sb3.ratio:
            ratio, verdict = compared.sb3.ratio, compared.sb3.verdict
            yield (
                f"Trains {_named(compared.workload)} {ratio.value:.3g} times as fast as Stable-Baselines3 on the same "
                f"CPU{_interval(ratio)}, {_RETURNS.get(verdict, verdict)}; {compared.batch_size} transitions a batch "
                f"({ratio.provenance})"
            )


def _named(workload: str) -> str:
    """Return a workload as its environment and algorithm, such as "Hopper with DDPG"."""
    item = workloads.load(workload)
    return f"{item.environment.id.rpartition('-')[0]} with {item.algorithm.name.upper()}"


def _off(errors: answers.PredictionErrors) -> str:
    return (
        f"{errors.median_percent:.1f}% off in the median of {errors.trainings} trainings, {errors.within} within "
        f"{answers.WITHIN_PERCENT:g}% ({errors.provenance}); {errors.certainty}"
    )


def _interval(number: Number) -> str:
    return "" if number.low is None or number.high is None else f" [{number.low:.3g}, {number.high:.3g}]"


def picture(content: Content) -> str:
    """Return the picture of predicted against achieved throughput as an SVG file, for light and dark pages."""
    points = [
        replace(p, achieved=replace(p.achieved, low=None, high=None))
        for p in content.predictions
        if p.achieved and p.strategy == DEFAULT_STRATEGY
    ]
    limit = from_text("MAP.optimum_gap")[0].value
    return standing_alone(plots.predicted_against_achieved(points, limit))


def standing_alone(drawn: Markup) -> str:
    """Return a plot of the report as an SVG file, for light and dark pages."""
    style = (pages.FOLDER / "style.css").read_text(encoding="utf-8")
    colours = re.match(r":root \{.*?\}\n@media [^{]*\{\n.*?\}\n\}\n", style, re.DOTALL)
    assert colours is not None, "style.css begins with the colours"
    own = f"{colours[0]}svg {{ color: var(--ink); background: var(--paper); font-family: sans-serif; }}\n"
    (svg,) = re.findall(r"<svg .*</svg>", drawn, re.DOTALL)
    return (
        re.sub(r"<svg ([^>]*>)", rf'<svg width="{WIDTH_PX}" \1\n<style>\n{own}</style>', svg, count=1) + "\n"
    )


def verdicts(content: Content, committed: Reference) -> str:
    """Return the page of verdicts in Markdown."""
    run = committed.run
    lines = [
        f"# Verdicts of the reference run `{committed.name}`",
        "",
        f"Run of the {escaped(run.tier)} tier, begun {escaped(run.started_at)}, revision {code(run.revision[:12])}, "
        f"machine {code(run.fingerprint)}: {escaped(pages.machine_in_a_line(content))}. The verdicts are those of the "
        "checks at the revision that wrote this page. [Verdicts](../verdicts.md) says what each word requires.",
        "",
    ]
    rows = (
        f"| {v.key} | {escaped(v.place)} | {escaped(v.statement)} | {v.finding.outcome} | {v.provenance or '–'} |"
        for v in content.verdicts
    )
    columns = ("claim", "place", "statement", "verdict", "provenance")
    lines += all_evidence.by_paper(columns, zip((v.paper for v in content.verdicts), rows, strict=True))
    return "\n".join(lines)


def notes_page() -> str:
    """Return the page of notes on the papers, the statements that no experiment can decide, in Markdown."""
    lines = [
        "# Notes on the papers",
        "",
        "Statements that no experiment can decide: printed arithmetic, numbers that contradict each other, and sizes "
        "that are printed wrongly in the available copies. They are no claims and count in no verdict. The computed "
        "numbers follow from the published ones (`results/papers/`), which a test repeats; the notes are in "
        "`harness/papers/<paper>/notes.toml`.",
        "",
        "| note | place | what the paper's own numbers say | computed |",
        "|---|---|---|---|",
        *(
            f"| {note.key} | {escaped(note.source)} | {escaped(note.sentence)} | {escaped(note.numbers)} |"
            for note in notes()
        ),
    ]
    return "\n".join(lines) + "\n"


def in_readme(text: str, markdown: str) -> str:
    """Return the text of README with the results in place of those between the two comments."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    assert after, f"README has no {BEGIN.strip()} ... {END.strip()}"
    return f"{before}{BEGIN}\n{markdown}\n{END}{after}"


def write(name: str, root: Path = ROOT, *, page_alone: bool = False) -> list[Path]:
    """Write the table, the picture and the page of verdicts of a committed reference run, and the notes on the papers.

    Raises:
        UserError: there is no such reference, it is damaged, or a file cannot be written.
    """
    known = {each.name: each for each in reference.load()}
    if name not in known:
        raise UserError("command line", "reference run", repr(name), ", ".join(known))
    committed = known[name]
    content, joint = content_of(committed), all_evidence.verdicts(list(known.values()))
    texts = {
        root / page_of(name): verdicts(content, committed),
        root / NOTES: notes_page(),
        root / VERDICTS: all_evidence.page(joint, list(known.values())),
        root / LENT_GPUS: other_gpus.page(list(known.values())),
    }
    shown = devices.of_references(list(known.values()))
    drawn = {figure.key: plot for figure in shown.figures if (plot := plots.of_devices(figure))}
    texts[root / DEVICES] = devices_markdown.page(shown, set(drawn))
    texts |= {root / devices_markdown.picture_of(key): standing_alone(plot) for key, plot in drawn.items()}
    if last := seconds_markdown.last_races(list(known.values())):
        texts[root / seconds_markdown.PAGE] = seconds_markdown.page(*last)
        if raced := seconds_figure.figure(last[1]):
            texts[root / seconds_markdown.PICTURE] = standing_alone(raced)
    if not page_alone:
        readme = root / "README.md"
        texts[readme] = in_readme(readme.read_text(encoding="utf-8"), results(content, name, joint))
        texts[root / PICTURE] = picture(content)
        if compared := answers.whole_trainings(content):
            texts[root / RATES] = standing_alone(plots.rates(compared))
    for path, text in texts.items():
        write_atomically(path, partial(_write_text, text))
    return list(texts)


def _write_text(text: str, target: Path) -> None:
    target.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the headline results and print the paths of the written files; exits with 2 on a user's mistake."""
    parser = argparse.ArgumentParser(
        "python -m placerl.harness.report.headline",
        description="Write the headline results of a committed reference run: README's results, the picture of "
        "predictions, and docs/results/NAME.md, the page of verdicts, with the notes on the papers.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", help="name of the reference run, such as standard")
    parser.add_argument("--page", action="store_true", help="write the page of verdicts alone")
    given = parser.parse_args(arguments)
    try:
        written = write(given.name, page_alone=given.page)
    except UserError as error:
        parser.error(str(error))
    print(*written, sep="\n")


if __name__ == "__main__":
    main()
