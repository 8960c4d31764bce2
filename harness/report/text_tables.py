"""Writes the tables of a report as Markdown and as LaTeX, for a paper or an issue.

They have fewer columns than the CSV files. Each number has unit, interval and provenance, in separate columns if all
numbers of a table are of one quantity.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from placerl.harness.core.suites import Suite
from placerl.harness.papers.number import Number, format_value
from placerl.harness.report.content import Content
from placerl.harness.report.formatting import scale_and_unit
from placerl.harness.report.markdown_text import escaped, hidden
from placerl.harness.report.rows.primitives import PrimitiveTime
from placerl.harness.report.rows.trainings import Throughput

SUFFIXES = {"markdown": ".md", "latex": ".tex"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "µ": r"\textmu{}",
    "×": r"$\times$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}

_LONGEST_LINE = 40  # characters of a cell, beyond which its column grows no wider
_TEXT_WIDTH = 80  # characters of a line in \footnotesize, article class
_SEPARATION = 2  # between two columns, in characters

Cell = str | tuple[str, ...]
"""The content of a cell of a table: a text, or parts that a format may place below each other."""


@dataclass(frozen=True)
class TextTable:
    """A table whose cells are text, for Markdown or LaTeX.

    Attributes:
        name: name of the file, without the suffix.
        rows: each with as many cells as there are headings.
        source: the command that measures the table's contents, shown if there are no rows.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    source: str

    @property
    def missing(self) -> str:
        """Return the text that a page shows in place of a table without rows; empty if the table has rows."""
        return "" if self.rows else f"not run: needs `{self.source}`"


def number_text(number: Number | None, absent: str = "not run") -> str:
    """Return a number as text: value, unit, interval, provenance, and "suspect" if it is impossible."""
    if number is None:
        return absent
    scale, unit = scale_and_unit(number.value, number.unit)
    space = "" if unit in ("", "%", "×", "/s") else " "
    interval = _interval(number, scale)
    shown = f"{format_value(number.value / scale, number.digits)}{space}{unit}"
    mark = ", suspect" if number.suspect else ""
    return f"{' '.join(filter(None, (shown, interval)))} ({number.provenance}{mark})"


def _interval(number: Number, scale: float = 1.0) -> str:
    """Return the bounds of the number, divided by `scale`; empty if it has none."""
    if number.low is None or number.high is None:
        return ""
    return f"[{format_value(number.low / scale)}, {format_value(number.high / scale)}]"


_NUMBER_COLUMNS = ("unit", "provenance", "status")


def _number_cells(number: Number | None, status: str) -> tuple[str, ...]:
    """Return a number in its own unit with its interval, and its `_NUMBER_COLUMNS`."""
    said = "" if status == "ok" else status.replace("_", " ")
    if number is None:
        return "", "", "", said
    value = " ".join(filter(None, (format_value(number.value, number.digits), _interval(number))))
    return value, number.unit, str(number.provenance), said


def text_tables(content: Content) -> list[TextTable]:
    """Return all tables of a report whose cells are text.

    They are throughput, portability, comparisons with other libraries and their versions, predictions of mappings
    that were run, times of primitives, returns, and verdicts on papers' statements.
    """
    return [
        _throughput(content),
        _portability(content),
        TextTable(
            "comparisons",
            "Throughput compared with other libraries",
            (
                "workload",
                "batch size",
                "baseline",
                "rate of",
                "this project",
                "the baseline",
                "ratio",
                "A/A null",
                "this project's return",
                "the baseline's return",
                "verdict",
            ),
            tuple(
                (
                    c.workload,
                    _text(c.batch_size),
                    c.baseline,
                    c.rate,
                    *(
                        number_text(n, c.verdict) + _mark("too_noisy" if part in c.noisy else "ok")
                        for n, part in (
                            (c.ours, "ours"),
                            (c.theirs, "theirs"),
                            (c.ratio, "throughput_ratio"),
                            (c.null, "null_ratio"),
                        )
                    ),
                    *(number_text(n, "not compared") for n in (c.our_return, c.their_return)),
                    c.verdict,
                )
                for c in content.comparisons
            ),
            "placerl compare",
        ),
        TextTable(
            "baseline_versions",
            "Versions and settings of what was compared",
            ("system", "compared", "workloads", "versions", "settings"),
            tuple(
                (
                    b.system,
                    b.tasks,
                    b.workloads,
                    b.versions or "not named",
                    b.settings or "as the workload says",
                )
                for b in content.baseline_versions
            ),
            "placerl compare",
        ),
        TextTable(
            "predictions",
            "Predicted and achieved gradient steps per second",
            ("workload", "batch size", "mapping", "model", "predicted", "achieved", "error"),
            tuple(
                (
                    p.workload,
                    _text(p.batch_size),
                    p.mapping,
                    p.strategy,
                    number_text(p.predicted) + _mark(p.predicted_status),
                    number_text(p.achieved) + _mark(p.achieved_status),
                    number_text(p.error),
                )
                for p in content.predictions
                if p.shown
            ),
            "placerl reproduce",
        ),
        TextTable(
            "primitives",
            "Time of one call of each primitive",
            ("workload", "primitive", "backend", "device", "batch size", "time"),
            tuple(
                (
                    t.workload,
                    t.primitive,
                    t.backend,
                    t.device,
                    _text(t.batch_size),
                    _timed(t),
                )
                for t in content.primitives
            ),
            "placerl profile",
        ),
        TextTable(
            "learning",
            "Interquartile mean of the return over seeds, of the last fifth of training and of the best stretch",
            ("workload", "system", "at the end", "best", "best at environment step", "seeds"),
            tuple(
                (
                    one.workload,
                    one.system,
                    number_text(one.end, one.reason),
                    number_text(one.best),
                    _text(one.best_step),
                    _text(one.seeds),
                )
                for one in content.learning
            ),
            "placerl learn",
        ),
        TextTable(
            "verdicts",
            "Verdicts on the statements of the papers",
            ("claim", "place", "statement", "published", "here", "verdict"),
            tuple(
                (
                    v.key,
                    v.place,
                    v.statement,
                    _numbers(v.claim.published) or ("not in the text",),
                    _numbers(v.finding.ours),
                    v.verdict,
                )
                for v in content.verdicts
            ),
            "placerl reproduce",
        ),
    ]


def _throughput(content: Content) -> TextTable:
    return TextTable(
        "throughput",
        "Gradient steps per second",
        ("workload", "batch size", "mapping or baseline", "gradient steps", *_NUMBER_COLUMNS),
        tuple(
            (t.workload, _text(t.batch_size), _how_it_ran(t), *_number_cells(t.value, t.status))
            for t in content.throughputs
        ),
        "placerl run",
    )


def _how_it_ran(t: Throughput) -> str:
    said = [
        t.mapping or t.system,
        f"{t.loop} loop" if t.loop else "",
        f"beside {t.beside}" if t.beside else "",
        "training" if t.suite == Suite.RUN else "",
        *t.options,
        f"seed {t.seed}" if t.suite == Suite.RUN and t.seed is not None else "",
    ]
    return ", ".join(filter(None, said))


def _portability(content: Content) -> TextTable:
    return TextTable(
        "portability",
        "Portability: harmonic mean of experiences per second over all choices, 0 where one is not supported",
        ("workload", "batch size", "of, and over", "choices lacking", "mean", *_NUMBER_COLUMNS),
        tuple(
            (
                p.workload,
                _text(p.batch_size),
                ", ".join(filter(None, (f"{p.system} over {p.over}", p.among))),
                "" if None in (p.unsupported, p.choices) else f"{p.unsupported} of {p.choices}",
                *_number_cells(p.value, p.status),
            )
            for p in content.portabilities
        ),
        "placerl validate",
    )


def _timed(t: PrimitiveTime) -> str:
    if t.time is None:
        return f"{t.status.replace('_', ' ')}: {t.reason}"
    return number_text(t.time) + _mark(t.status)


def _mark(status: str) -> str:
    """Return the mark after a number with this status."""
    return "" if status == "ok" else f", {status.replace('_', ' ')}"


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _numbers(numbers: Sequence[Number]) -> tuple[str, ...]:
    return tuple(f"{n.quantity}: {number_text(n)}" for n in numbers)


def _parts(cell: Cell) -> tuple[str, ...]:
    return (cell,) if isinstance(cell, str) else cell


def as_markdown(table: TextTable) -> str:
    """Return a table in GitHub's Markdown, with its title as a heading."""
    if table.missing:
        return f"## {escaped(table.title)}\n\n{table.missing}\n"

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(escaped, cells))} |"

    rule = "|" + "---|" * len(table.columns)
    rows = (["; ".join(_parts(cell)) for cell in row] for row in table.rows)
    return "\n".join([f"## {escaped(table.title)}", "", line(table.columns), rule, *map(line, rows), ""])


def as_latex(table: TextTable) -> str:
    """Return a table as a LaTeX longtable, which may extend over several pages.

    The document needs the packages array, booktabs, longtable and textcomp. The parts of a cell are separate lines,
    because a page cannot break within a line.
    """
    if table.missing:
        return f"{table.title}: {_latex(table.missing)}\n"

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(_latex, cells)) + r" \\"

    shares = column_shares(table)
    columns = (
        rf">{{\raggedright\arraybackslash}}p{{\dimexpr{share:.3f}\linewidth-2\tabcolsep\relax}}"
        for share in shares
    )
    heading = [r"\toprule", line(table.columns), r"\midrule"]
    return "\n".join(
        [
            r"% \usepackage{array,booktabs,longtable,textcomp}",
            r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}",
            rf"\begin{{longtable}}{{{''.join(columns)}}}",
            rf"\caption{{{table.title}}} \\",
            *heading,
            r"\endfirsthead",
            *heading,
            r"\endhead",
            r"\bottomrule",
            r"\endlastfoot",
            *(line(cells) for row in table.rows for cells in zip_longest(*map(_parts, row), fillvalue="")),
            r"\end{longtable}",
            r"\endgroup",
            "",
        ]
    )


def column_shares(table: TextTable) -> list[float]:
    """Return the share of the page's width that each column gets; the shares add up to 1.

    A column gets room for its longest word. The rest of the width is divided by the lengths of the longest cells.
    """
    columns = [
        [heading, *(part for row in table.rows for part in _parts(row[place]))]
        for place, heading in enumerate(table.columns)
    ]
    words = [max(map(_longest_word, column)) + _SEPARATION for column in columns]
    lengths = [min(max(map(len, column)), _LONGEST_LINE) + _SEPARATION for column in columns]
    wanted = [max(0, length - word) for length, word in zip(lengths, words, strict=True)]
    spare = max(0, _TEXT_WIDTH - sum(words)) / (sum(wanted) or 1)
    widths = [word + spare * more for word, more in zip(words, wanted, strict=True)]
    return [width / sum(widths) for width in widths]


def _longest_word(text: str) -> int:
    """Return the characters of the longest part that TeX does not break; it breaks after a hyphen."""
    return max(map(len, re.split(r"\s|(?<=-)", text)))


def _latex(text: str) -> str:
    r"""Escape text so that LaTeX prints it literally; text between backticks becomes `\texttt`.

    pdfTeX cannot print letters beyond Latin-1, nor control characters: their numbers are printed instead.
    """
    line = re.sub(r"[ \t\r\n]+", " ", text)
    safe = "".join(
        _LATEX.get(c, c if ord(c) < 0x100 and not hidden(c) else rf"\texttt{{U+{ord(c):04X}}}") for c in line
    )
    safe = re.sub(r"-(?=-)", "-{}", safe)  # not a dash
    safe = re.sub(r"(?<![\w})\]-])-(?=\d)", "$-$", safe)  # not a hyphen
    return re.sub(r"`([^`]*)`", lambda code: rf"\texttt{{{_breaking(code[1])}}}", safe)


def _breaking(code: str) -> str:
    r"""Return code that TeX may break after a hyphen, which it does not do in `\texttt` by itself."""
    return re.sub(r"(?<=\w)-(?=\w)", r"-\\allowbreak{}", code)


FORMATS: dict[str, Callable[[TextTable], str]] = {"markdown": as_markdown, "latex": as_latex}
