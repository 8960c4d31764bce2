"""Declares experiments, whose rows show whether claims hold, makes their rows, and reads these."""

from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.quantities import QUANTITIES
from placerl.harness.core.row import HowTimed
from placerl.harness.core.suites import Suite
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.rows import summary_row
from placerl.harness.measure.statistics import Comparison
from placerl.harness.measure.timed_case import Timing
from placerl.harness.store.rows import ClaimRow


@dataclass(frozen=True)
class Columns:
    """What a row of an experiment states besides the columns of every row; a subclass declares them.

    Its values are what JSON holds; one that is None is not stored.
    """


def gain_of_times(comparison: Comparison) -> dict[str, Any]:
    """Return the fields of a row that hold the ratio of throughputs from a comparison of times, and its status."""
    if comparison.ratio is None:
        return {"status": "too_noisy", "reason": comparison.reason}
    return {
        "value": 1 / comparison.ratio.value,
        "low": 1 / comparison.ratio.high,
        "high": 1 / comparison.ratio.low,
    }


class Experiment(str):
    """An experiment that shows whether a paper's claim holds, declared once in the file of its figure or table.

    Its rows have suite `claim`; they hold one of its quantities and its columns, and only these can be read.

    Args:
        name: name as stored, such as "PAL-F10".
        quantities: quantities of its rows, separated by blanks.
        columns: what its rows state (`Columns`), a dataclass.
        of_machine: whether its rows depend on the machine; counts do not, and clock cycles never do.

    Raises:
        ValueError: a quantity is not one of `harness.core.quantities`.
    """

    __slots__ = ("about", "columns", "quantities")

    about: str
    quantities: frozenset[str]
    columns: type[Any]
    of_no_machine: ClassVar[set[str]] = set()
    """Names of the experiments whose rows do not depend on the machine."""

    def __new__(
        cls, name: str, about: str, quantities: str, columns: type[Any] = Columns, *, of_machine: bool = True
    ) -> Self:
        experiment = super().__new__(cls, name)
        experiment.about, experiment.columns = about, columns
        experiment.quantities = frozenset(quantities.split())
        if not of_machine:
            cls.of_no_machine.add(name)
        experiment.check(*experiment.quantities, known=frozenset(QUANTITIES))
        return experiment

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process creates it: cells and rows are sent to and from it."""
        stated = str(self), self.about, " ".join(sorted(self.quantities)), self.columns
        return type(self), stated

    def check(self, *quantities: str, known: frozenset[str] | None = None) -> None:
        """Check that the rows of this experiment may hold some quantities.

        Args:
            known: the names that are allowed; by default the experiment's own.

        Raises:
            ValueError: a name is not allowed; the message names the first.
        """
        allowed = self.quantities if known is None else known
        for quantity in quantities:
            if quantity not in allowed:
                names = ", ".join(sorted(allowed))
                raise ValueError(f"experiment {self}: quantity: found {quantity!r}; allowed: {names}")

    def not_run(self, reason: str, columns: Any = None, **more: Any) -> ClaimRow:
        """Return a row of what was not run; without columns if it stands for the whole experiment.

        Args:
            more: the row's other fields, as of `row`; by default its number would have been measured.
        """
        fields = {"provenance": Provenance.MEASURED, **more}
        return self._checked(ClaimRow(status="not_run", reason=reason, **self._fields(columns), **fields))

    def row(self, columns: Any, **more: Any) -> ClaimRow:
        """Return a row with these columns.

        Raises:
            ValueError: the experiment has no such quantity.
            TypeError: the columns are those of another experiment.
        """
        return self._checked(ClaimRow(**self._fields(columns), **more))

    def summary(self, samples: Sequence[float], columns: Any, **more: Any) -> ClaimRow:
        """Return a row of samples, as `measure.rows.summary_row` does, with the machine's conditions now."""
        timed = HowTimed(conditions=conditions())
        return self._checked(summary_row(ClaimRow, samples, timed=timed, **self._fields(columns), **more))

    def timing(self, timing: Timing, columns: Any, **more: Any) -> ClaimRow:
        """Return a row of a timing, with the machine's conditions now."""
        row = timing.measurement(ClaimRow, **self._fields(columns), **more)
        return self._checked(replace(row, timed=replace(row.timed, conditions=conditions())))

    def read(self, stored: Any) -> Any:
        """Return the columns of a row without what is not declared; a row of an earlier version may lack some.

        These are then None, or have their default.

        Args:
            stored: the row's parameters by name, or None; columns that were read are returned unchanged.
        """
        if isinstance(stored, self.columns):
            return stored
        defaults = {one.name: None if one.default is MISSING else one.default for one in fields(self.columns)}
        return self.columns(**{name: (stored or {}).get(name, default) for name, default in defaults.items()})

    def _fields(self, columns: Any) -> dict[str, Any]:
        if columns is not None and type(columns) is not self.columns:
            raise TypeError(
                f"experiment {self}: columns: found {type(columns).__name__}; allowed: {self.columns.__name__}"
            )
        stated = {} if columns is None else asdict(columns)
        parameters = {name: value for name, value in stated.items() if value is not None}
        return {"suite": Suite.CLAIM, "experiment": self, "parameters": parameters}

    def _checked(self, row: ClaimRow) -> ClaimRow:
        self.check(row.quantity)
        return row
