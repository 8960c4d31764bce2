"""Formats numbers for the page: in a readable unit, marked with their provenance, with exact values for programs."""

from markupsafe import Markup, escape

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.number import Number, format_value

MARKS = {
    Provenance.MEASURED: "●",
    Provenance.SIMULATED: "◐",
    Provenance.MODELLED: "○",
    Provenance.PUBLISHED: "¶",
}
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_RATES = ("FLOP/s", "B/s", "FLOP", "B")  # scaled by powers of a thousand
_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNITS = {"ratio": "×", "1": "", "count": "", "1/s": "/s"}


def scale_and_unit(value: float, unit: str) -> tuple[float, str]:
    """Return by what to divide a value so that it is easy to read, and the resulting unit.

    A time of 0.003 s, for example, gives (1e-3, "ms"): 3 ms.
    """
    if unit == "s" and value:
        for scale, name in _TIMES:
            if abs(value) >= scale:
                return scale, name
        return _TIMES[-1]
    if unit in _RATES:
        for scale, prefix in _THOUSANDS:
            if abs(value) >= scale:
                return scale, f"{prefix}{unit}"
    return 1.0, _UNITS.get(unit, unit)


def show(number: Number) -> Markup:
    """Return a number as HTML: value, unit, interval, and a mark for its provenance.

    `<data>` elements hold the exact values. An impossible number (`Number.suspect`) has a badge.
    """
    scale, unit = scale_and_unit(number.value, number.unit)

    def part(value: float) -> Markup:
        text = format_value(value / scale, number.digits)
        return Markup('<data value="{}">{}</data>').format(repr(float(value)), text)

    space = "" if unit in ("", "%", "×", "/s") else "\N{NO-BREAK SPACE}"
    text = Markup("{}{}{}").format(part(number.value), space, unit)
    if number.low is not None and number.high is not None:
        text += Markup(' <span class="interval">[{}, {}]</span>').format(part(number.low), part(number.high))
    mark = Markup('<abbr class="mark" title="{}">{}</abbr>').format(
        str(number.provenance), MARKS[number.provenance]
    )
    markup = Markup('<span class="number">{}&nbsp;{}</span>').format(text, mark)
    if number.suspect:
        markup += Markup(' <span class="badge suspect" title="{}">suspect</span>').format(number.suspect)
    return markup


def commands(text: str) -> Markup:
    """Return a text as HTML, in which what stands between two backticks is code."""
    parts = enumerate(text.split("`"))
    return Markup("").join(
        Markup("<code>{}</code>").format(one) if n % 2 else escape(one) for n, one in parts
    )


def whole(value: int | None) -> Markup:
    """Return an integer that is a setting and not a result, such as a batch size, as HTML; a dash for None."""
    return (
        Markup("&ndash;")
        if value is None
        else Markup('<data value="{}">{}</data>').format(value, f"{value:,}")
    )


def row_ranges(rows: tuple[int, ...]) -> str:
    """Return row numbers as text, with consecutive numbers joined: "3, 7-9, 12".

    Args:
        rows: the numbers in ascending order.
    """
    ranges: list[list[int]] = []
    for row in rows:
        if ranges and row == ranges[-1][1] + 1:
            ranges[-1][1] = row
        else:
            ranges.append([row, row])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
