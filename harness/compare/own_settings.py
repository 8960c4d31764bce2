"""Tasks with a return to reach, and the settings with which each system learns them best: `own_settings.toml`.

A goal's workload is a shipped one, with changes where it is another environment. This project trains it as it is;
another library trains it with the changes, and the arguments of its own, that the file states with their source.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.toml_models import TomlTable, check, read_toml
from placerl.harness.store.rows import OURS
from placerl.harness.workloads import Workload

FILE = Path(__file__).with_name("own_settings.toml")
SHIPPED = "the workload's, as shipped"
"""The source of this project's settings."""
Changes = dict[str, dict[str, Any]]


class Side(TomlTable):
    """A `[[goals.sides]]` table: the settings of one or several libraries."""

    systems: tuple[str, ...] = Field(min_length=1, description="folders of baselines/")
    source: str = Field(min_length=1, max_length=200, description="where the settings are from")
    changes: Changes = Field(default={}, description="fields of the goal's workload, by table and name")
    library: dict[str, Any] = Field(default={}, description="arguments of the library's own")


class Goal(TomlTable):
    """A `[[goals]]` table: a task, the return to reach, and the libraries that are trained for it."""

    name: str
    workload: str | None = Field(
        default=None, description="the shipped workload; by default that of the name"
    )
    changes: Changes = Field(default={}, description="fields of the shipped workload, by table and name")
    budget_s: float = Field(gt=0, description="seconds of training in which the return is to be reached")
    gap: int = Field(ge=1, description="environment steps between evaluations, at first")
    steps: int = Field(ge=1, description="environment steps of a whole learning curve")
    random_return: float = Field(description="mean return of random actions")
    sides: tuple[Side, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """This project and the libraries that are trained for the goal."""
        return OURS, *(name for side in self.sides for name in side.systems)

    @property
    def threshold(self) -> float:
        """The mean return to reach and hold."""
        threshold = self.workload_of(OURS).training.solved_return
        assert threshold is not None
        return threshold

    def side_of(self, system: str) -> Side | None:
        """Return the settings of a library; None for this project, which trains the workload as it is."""
        return next((side for side in self.sides if system in side.systems), None)

    def workload_of(self, system: str) -> Workload:
        """Return the workload that a system trains, under the goal's name.

        Raises:
            UserError: a changed table or field does not exist, or a value is not allowed.
        """
        side = self.side_of(system)
        tables = workloads.load(self.workload or self.name).tables() | {"name": self.name, "stands_for": []}
        for changes in (self.changes, side.changes if side else {}):
            _change(tables, changes, f"{FILE.name}, {self.name}, {system}")
        return workloads.from_tables(tables, f"{FILE.name}, {self.name}, {system}")


def _change(tables: dict[str, Any], changes: Mapping[str, Mapping[str, Any]], source: str) -> None:
    for table, fields in changes.items():
        if unknown := fields.keys() - tables[table].keys():
            raise UserError(source, table, ", ".join(sorted(unknown)), ", ".join(tables[table]))
        tables[table] |= fields


class _File(TomlTable):
    goals: tuple[Goal, ...]


@cache
def goals() -> dict[str, Goal]:
    """Return the goals by name, in the order of the file."""
    return {goal.name: goal for goal in check(_File, read_toml(FILE), FILE).goals}
