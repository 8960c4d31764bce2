"""Defines the numbers of verdicts and reports: each has its unit, its interval and its provenance."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.papers import published

SIGNIFICANT_DIGITS = 4
_PRINTED_DIGITS = 9  # a paper's number is shown as it is printed


def format_value(value: float, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Return a value as text with a given number of significant digits.

    Between 0.0001 and ten million, and for integers below 1e12, the text has no exponent.

    Args:
        digits: significant digits, 1 or more; integers keep all of theirs.
    """
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e12:
        return f"{value:,.0f}"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class Number:
    """A number with its unit, interval and provenance, for a verdict or a report.

    Attributes:
        quantity: name of the quantity, in words.
        unit: unit of value, low and high; "ratio" for a factor, "1" for a number without unit.
        provenance: origin: measured, simulated, modelled or published; the weakest one if the number is computed from
            several numbers.
        source: the paper's table or section, or how the number was computed.
        low, high: bounds of the 95% interval; None if there is none.
        rows: index labels of the stored measurements that the number was computed from.
        digits: significant digits to show.
        suspect: why the number is impossible; empty if it is not. No verdict uses a suspect number.
    """

    quantity: str
    value: float
    unit: str
    provenance: Provenance
    source: str = ""
    low: float | None = None
    high: float | None = None
    rows: tuple[int, ...] = ()
    digits: int = SIGNIFICANT_DIGITS
    suspect: str = ""

    def above(self, limit: float) -> bool:
        """Return whether the number's whole interval is above a limit; False without an interval."""
        return self.low is not None and self.low > limit

    def below(self, limit: float) -> bool:
        """Return whether the number's whole interval is below a limit; False without an interval."""
        return self.high is not None and self.high < limit

    def __str__(self) -> str:
        unit = {"ratio": "x", "1": "", "count": "", "%": "%"}.get(self.unit, f" {self.unit}")
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f" [{format_value(self.low)}, {format_value(self.high)}]"
        mark = " (suspect)" if self.suspect else ""
        return f"{format_value(self.value, self.digits)}{unit}{interval}{mark}"


def from_text(*keys: str) -> tuple[Number, ...]:
    """Return numbers that the papers print in their text."""
    quantities = map(published.quantity, keys)
    return tuple(
        Number(q.words, q.value, q.unit, Provenance.PUBLISHED, q.source, digits=_PRINTED_DIGITS)
        for q in quantities
    )


def integers(*keys: str) -> tuple[int, ...]:
    """Return whole numbers that the papers print in their text, as `from_text` takes them."""
    return tuple(int(number.value) for number in from_text(*keys))


def from_cell(table: str, row: str, column: str) -> Number:
    """Return the number in a cell of a published table or figure.

    A value read off a figure has its reading error as interval.

    Args:
        table: name of the table or figure (`published.table`), such as "map_table_3" or "fix_figure_8".
    """
    printed = published.table(table)
    cell, value = printed.cell(row, column), printed.value(row, column)
    error = cell.reading_error
    return Number(
        f"{row}: {column}",
        value,
        cell.unit,
        Provenance.PUBLISHED,
        f"{cell.place}, read off the figure" if error else cell.place,
        value - error if error else None,
        value + error if error else None,
        digits=_PRINTED_DIGITS,
    )


def ratio(quantity: str, a: Number, b: Number, *, at_most: float | None = None) -> Number:
    """Return a / b with the widest interval that both intervals allow, the weaker provenance and the rows of both.

    Args:
        a, b: numbers in the same unit; b above 0.
        at_most: for a speedup, the ratio of the resources (cores, threads, learners) of a to those of b. A speedup
            whose whole interval is above it is marked as impossible (`Number.suspect`). None if a and b differ in
            something else.

    Raises:
        ValueError: b, or a bound of it, is not above 0.
    """
    bounds = [bound for bound in (b.low, b.value) if bound is not None]
    if min(bounds) <= 0:
        raise ValueError(f"{b.quantity}: found {b}; allowed as a divisor: above 0")
    low = high = None
    if a.low is not None and a.high is not None and b.low is not None and b.high is not None:
        low, high = a.low / b.high, a.high / b.low
    quotient = Number(
        quantity,
        a.value / b.value,
        "ratio",
        weakest(a.provenance, b.provenance),
        f"{a.quantity} over {b.quantity}",
        low,
        high,
        merge_rows((a, b)),
        suspect=a.suspect or b.suspect,
    )
    return quotient if at_most is None else bounded_speedup(quotient, at_most)


def bounded_speedup(speedup: Number, at_most: float) -> Number:
    """Return a speedup, marked as impossible (`Number.suspect`) if it exceeds the ratio of the resources.

    It is marked if the lower bound of its interval, or its value if it has none, is above that ratio.

    Args:
        at_most: resources (cores, threads) behind the first rate, divided by those behind the second, 1 or more.
    """
    low = speedup.value if speedup.low is None else speedup.low
    if speedup.suspect or low <= at_most:
        return speedup
    return replace(
        speedup,
        suspect=f"{format_value(low)} times or more as fast with {format_value(at_most)} times the resources",
    )


LEAST_OF_PARTS = 0.8
"""A baseline is suspect if its rate is below this share of the rate that its own parts add up to."""


def checked_baseline(baseline: Number, parts_s: float) -> Number:
    """Return a baseline's rate, marked as impossible (`Number.suspect`) if its own parts imply a much higher rate.

    The parts were timed one by one. Run in sequence they must not be much faster than the whole: the rate has to be
    at least 0.8 of the one that they add up to (`LEAST_OF_PARTS`).

    Args:
        parts_s: seconds that the parts together take for what the rate counts, such as one gradient step; above 0.
    """
    reached = baseline.value if baseline.high is None else baseline.high
    if baseline.suspect or reached >= LEAST_OF_PARTS / parts_s:
        return baseline
    return replace(
        baseline,
        suspect=f"{format_value(100 * reached * parts_s)}% of the {format_value(1 / parts_s)} per second that its own "
        "parts add up to",
    )


def shortfall(quantity: str, a: Number, b: Number) -> Number:
    """Return by how many percent a is below b, 100 (1 - a / b), with its interval."""
    share = ratio(quantity, a, b)
    low, high = (None if bound is None else 100 * (1 - bound) for bound in (share.high, share.low))
    value, source = 100 * (1 - share.value), f"1 - {share.source}"
    return replace(share, value=value, unit="%", source=source, low=low, high=high)


def merge_rows(numbers: Iterable[Number]) -> tuple[int, ...]:
    """Return the index labels of all stored measurements from which numbers were computed, sorted, each once."""
    return tuple(sorted({row for number in numbers for row in number.rows}))


def scaled(number: Number, factor: float, unit: str = "") -> Number:
    """Return a number with its value and bounds multiplied by a factor.

    Args:
        unit: unit of the result; by default the number's own.
    """
    low, high = (None if bound is None else factor * bound for bound in (number.low, number.high))
    return replace(number, value=factor * number.value, low=low, high=high, unit=unit or number.unit)
