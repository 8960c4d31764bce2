"""Defines a measurement, a row of the store: what was measured and where, the samples, and the number's origin."""

import json
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.quantities import declared
from placerl.harness.core.suites import Experiment, Suite

STATUSES = ("ok", "too_noisy", "failed", "not_run")


def _require(condition: bool, name: str, found: object, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{name}: found {found!r}; allowed: {allowed}")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One measurement, which is one row of the store.

    Attributes:
        suite: the purpose of the measurement (`harness.core.suites`): "profile", "prediction", "run", "compare",
            "claim", ...
        workload: the workload's name; empty if there is none.
        primitive: what was measured: "sum_tree.sample", "learner.step", "training", ...
        backend: the backend or baseline; empty if there is none.
        device: "cpu", "cuda:0", ...; empty if there is none.
        batch_size: transitions in a batch, 1 or more; None if there is none.
        quantity: a name that `harness.core.quantities` declares, such as "time_per_call"; a store from an earlier
            version or another program may hold other names.
        unit: "s", "1/s", "1", ...; by default the unit of the quantity.
        provenance: origin of the number: measured, simulated, modelled or published.
        status: "ok"; "too_noisy" (a value with a wide interval, or without one); "failed"; "not_run".
        reason: why the status is not "ok", with control characters replaced by blanks; empty if it is "ok".
        value: the median, in `unit`; None if failed or not run.
        low, high: bounds of the 95% bootstrap interval, in `unit`; either both or neither.
        samples: the raw samples, in `unit`.
        details: further settings that are needed to repeat the measurement (parameters, threads, pinning, mapping,
            ...), as JSON.

    Raises:
        ValueError: a field is out of range or contradicts another; the message names it.
        TypeError: a field has the wrong type, or `details` cannot be written as JSON.
    """

    suite: str
    workload: str = ""
    primitive: str
    backend: str = ""
    device: str = ""
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
    details: Mapping[str, Any] = field(default_factory=dict)

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
        if isinstance(self.suite, Suite):
            allowed = ", ".join(sorted(self.suite.quantities))
            _require(self.suite.holds(self.quantity), "quantity", self.quantity, f"{self.suite}: {allowed}")
            object.__setattr__(self, "suite", str(self.suite))  # plain text, as a row that was read has
        if isinstance(self.details, Mapping) and isinstance(
            name := self.details.get("experiment"), Experiment
        ):
            name.check(self.quantity)
        names = ("suite", "workload", "primitive", "backend", "device", "quantity", "unit")
        for name in (*names, "reason"):
            _require(isinstance(getattr(self, name), str), name, getattr(self, name), "text")
        # A terminal obeys control characters: names may hold none, and in a failed program's message they become
        # blanks.
        for name in names:
            _require(getattr(self, name).isprintable(), name, getattr(self, name), "printable text")
        said = "".join(one if one.isprintable() or one in "\n\t" else " " for one in self.reason)
        object.__setattr__(self, "reason", said)
        for name in ("suite", "primitive", "quantity", "unit"):
            _require(bool(getattr(self, name)), name, getattr(self, name), "text that is not empty")
        if self.batch_size is not None:
            object.__setattr__(self, "batch_size", operator.index(self.batch_size))
            _require(
                operator.index(self.batch_size) >= 1, "batch_size", self.batch_size, "1 or more, or None"
            )
        words = ", ".join(Provenance)
        _require(self.provenance in list(Provenance), "provenance", self.provenance, words)
        object.__setattr__(self, "provenance", Provenance(self.provenance))
        _require(self.status in STATUSES, "status", self.status, ", ".join(STATUSES))
        explained = bool(self.reason) != (self.status == "ok")
        _require(explained, "reason", self.reason, "empty exactly when status is ok")
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
        _require(isinstance(self.details, Mapping), "details", self.details, "a mapping")
        json.dumps(self.details, allow_nan=False)

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as a dict of its fields by name, whose values JSON can hold."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {
            "provenance": str(self.provenance),
            "samples": list(self.samples),
            "details": dict(self.details),
        }


class Interrupted(KeyboardInterrupt):
    """Raised at Ctrl-C during a measurement, so that the rows measured before it are not lost.

    Args:
        rows: the rows measured before the interruption.
    """

    def __init__(self, rows: list[Measurement]) -> None:
        super().__init__()
        self.rows = rows
