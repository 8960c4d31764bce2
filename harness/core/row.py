"""Defines the row of the store: what was measured, its interval and samples, and the number's origin.

A kind of row is a subclass with columns of its own (`harness.store.rows`, and the file of a figure for a claim's).
"""

import json
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.quantities import declared
from placerl.harness.core.suites import Suite

STATUSES = ("ok", "too_noisy", "failed", "not_run")
_PROVENANCES = tuple(Provenance)
KINDS: "dict[str, type[Row]]" = {}
"""The declared kinds of rows, by the name of their table."""
RUN_COLUMNS = ("run", "run_key", "tier", "revision", "fingerprint", "started_at", "cell", "finished_at")
"""Columns that a frame of rows has beside theirs: of the run, and of its cell, the unit of work."""


def _require(condition: bool, name: str, found: object, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{name}: found {found!r}; allowed: {allowed}")


@dataclass(frozen=True, kw_only=True)
class HowTimed:
    """How and under which conditions a number was measured.

    Attributes:
        protocol: the timing protocol: rounds, block length, pinning, ...
        conditions: what may affect the measurement: cores, threads, versions, load (`harness.measure.conditions`).
        readings: the readings of the core's speed around it.
        pace: how far its blocks ran at full core speed, and how they were converted to it.
        calls_per_block: calls in each timed block.
        all_parts_s: for a part of a call, the seconds of all parts.
        sample_rounds: the rounds of the samples, as [first, last] of each stretch without a gap.
    """

    protocol: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    readings: Mapping[str, Any] = field(default_factory=dict)
    pace: Mapping[str, Any] = field(default_factory=dict)
    calls_per_block: int | None = None
    all_parts_s: float | None = None
    sample_rounds: Sequence[Sequence[int]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the entries that are stated, by name."""
        entries = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in entries.items() if value not in (None, {}, (), [])}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the store. What is measured on has its own columns, in a subclass, which is a kind of row.

    Attributes:
        suite: the purpose of the measurement (`harness.core.suites`): "profile", "prediction", "run", "compare",
            "claim", ...
        primitive: what was measured: "sum_tree.sample", "learner.step", "training", ...
        quantity: a name that `harness.core.quantities` declares, such as "time_per_call"; a store from an earlier
            version or another program may hold other names.
        unit: "s", "1/s", "1", ...; by default the unit of the quantity.
        provenance: origin of the number: measured, simulated, modelled or published.
        status: "ok"; "too_noisy" (a value with a wide interval, or without one); "failed"; "not_run".
        reason: why the status is not "ok", with control characters replaced by blanks; empty if it is "ok".
        value: the median, in `unit`; None if failed or not run.
        low, high: bounds of the 95% bootstrap interval, in `unit`; either both or neither.
        samples: the raw samples, in `unit`.
        timed: how and under which conditions it was measured.
        notes: what is printed and drawn, and never judged, as JSON.
        precisions: number formats of the learners that were measured as well as float32.
        node: the machine of a cluster that measured it; empty if no cluster did.

    Raises:
        ValueError: a field is out of range or contradicts another; the message names it.
        TypeError: a field has the wrong type, or cannot be written as JSON.
    """

    suite: str
    workload: str = ""
    primitive: str
    batch_size: int | None = None
    quantity: str
    unit: str = ""
    provenance: Provenance
    status: str = "ok"
    reason: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    samples: tuple[float, ...] = ()
    timed: HowTimed = HowTimed()
    notes: Mapping[str, Any] = field(default_factory=dict)
    precisions: Sequence[str] = ()
    node: str = ""

    table: ClassVar[str]
    _who: ClassVar[str] = ""
    _where: ClassVar[str] = ""

    def __init_subclass__(cls, *, table: str = "", who: str = "", where: str = "", **more: Any) -> None:
        """Declare a kind of row.

        Args:
            table: name of its table in the store; empty for a class that only others derive from.
            who, where: the columns that say whose number it is and where it was measured; empty for the base's.
        """
        super().__init_subclass__(**more)
        cls._who, cls._where = who or cls._who, where or cls._where
        if table:
            if taken := set(RUN_COLUMNS) & set(cls.__annotations__):
                raise TypeError(
                    f"{cls.__name__}: found {sorted(taken)}; allowed: columns that a frame has not of the run"
                )
            cls.table = table
            KINDS[table] = cls

    def __post_init__(self) -> None:
        if self.unit == "":
            known = declared(str(self.quantity))
            _require(
                known is not None,
                "quantity",
                self.quantity,
                "one of placerl.harness.core.quantities, or a unit with it",
            )
            object.__setattr__(self, "unit", known.unit if known else "")
        if isinstance(self.suite, Suite) and not self.suite.holds(self.quantity):
            allowed = ", ".join(sorted(self.suite.quantities))
            _require(False, "quantity", self.quantity, f"{self.suite}: {allowed}")
        self._check_texts()
        self._check_numbers()
        object.__setattr__(self, "precisions", tuple(self.precisions))
        for value in vars(self).values():
            if value and isinstance(value, Mapping | list | tuple):
                json.dumps(value, allow_nan=False)
        _require(isinstance(self.timed, HowTimed), "timed", self.timed, "HowTimed")
        _require(isinstance(self.notes, Mapping), "notes", self.notes, "a mapping")

    def _check_texts(self) -> None:
        for name in ("suite", "workload", "primitive", "quantity", "unit", "reason"):
            _require(isinstance(getattr(self, name), str), name, getattr(self, name), "text")
        for name, text in list(vars(self).items()):
            # A terminal obeys control characters: names may hold none, and in a failed program's message they become
            # blanks.
            if isinstance(text, str) and name != "reason":
                _require(text.isprintable(), name, text, "printable text")
                object.__setattr__(self, name, str(text))  # plain text, as a row that was read has
        said = "".join(one if one.isprintable() or one in "\n\t" else " " for one in self.reason)
        object.__setattr__(self, "reason", said)
        for name in ("suite", "primitive", "quantity", "unit"):
            _require(bool(getattr(self, name)), name, getattr(self, name), "text that is not empty")
        _require(self.provenance in _PROVENANCES, "provenance", self.provenance, ", ".join(_PROVENANCES))
        object.__setattr__(self, "provenance", Provenance(self.provenance))
        _require(self.status in STATUSES, "status", self.status, ", ".join(STATUSES))
        explained = bool(self.reason) != (self.status == "ok")
        _require(explained, "reason", self.reason, "empty exactly when status is ok")

    def _check_numbers(self) -> None:
        if self.batch_size is not None:
            object.__setattr__(self, "batch_size", operator.index(self.batch_size))
            _require(self.batch_size >= 1, "batch_size", self.batch_size, "1 or more, or None")
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            _require(number is None or math.isfinite(number), name, number, "a finite number or None")
            object.__setattr__(self, name, None if number is None else float(number))
        has_value = self.status in ("ok", "too_noisy")
        allowed = "a number when ok or too_noisy, None when failed or not_run"
        _require((self.value is not None) == has_value, "value", self.value, allowed)
        interval = (self.low, self.high)
        _require((self.low is None) == (self.high is None), "low, high", interval, "both or neither")
        if self.low is not None and self.high is not None:
            _require(self.low <= self.high, "low, high", interval, "low <= high")
        samples = tuple(map(float, self.samples))
        _require(all(map(math.isfinite, samples)), "samples", "one that is not finite", "finite numbers")
        object.__setattr__(self, "samples", samples)

    @property
    def who(self) -> str:
        """Return whose number it is, in a line of a report: a backend, a strategy, a library; empty if nobody's."""
        return str(getattr(self, self._who)) if self._who else ""

    @property
    def where(self) -> str:
        """Return where it was measured, in a line of a report: a device or a mapping; empty if nowhere."""
        return str(getattr(self, self._where)) if self._where else ""

    def to_json(self) -> dict[str, Any]:
        """Return the row as a dict of its kind and its fields by name, whose values JSON can hold."""
        return (
            {"kind": getattr(type(self), "table", "")}
            | {one.name: getattr(self, one.name) for one in fields(self)}
            | {
                "provenance": str(self.provenance),
                "samples": list(self.samples),
                "timed": self.timed.to_json(),
                "notes": dict(self.notes),
            }
        )


class Interrupted(KeyboardInterrupt):
    """Raised at Ctrl-C during a measurement, so that the rows measured before it are not lost."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self.rows = list(rows)
