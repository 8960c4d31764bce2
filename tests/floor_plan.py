"""Who may import whom: the rooms of the tree and the arrows between them, read from the sources.

    .venv/bin/python -P tests/floor_plan.py    # draws the rooms; fails where an import breaks a rule

An import counts wherever it stands, also inside a function and for a type alone.
"""

import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
ROOMS = (
    "cli",
    "examples",
    "report",
    "why",
    "cluster",
    "plan",
    "machines",
    "validate",
    "papers",
    "profile",
    "compare",
    "runtime",
    "pieces",
    "mapping",
    "loop",
    "store",
    "platforms",
    "workloads",
    "environments",
    "measure",
    "core",
)
"""The rooms of `harness`, top to bottom: a room imports only rooms below it."""
PAPERS = "papers"
"""The room whose folders, one a paper, do not import each other, and whose files import none of them: the folders are
found by their names. Of the other rooms the top one alone, for its benches, imports a paper's folder."""
LOOSE: tuple[str, ...] = ()
"""Files of `harness` that lie in no room."""
BASELINES = ("baselines", *sorted(path.stem for path in (ROOT / "baselines").glob("*.py")))
"""What the files of `baselines/` are called in an import: nothing here imports one."""

CONFINED = {"pyopencl": "primitives.device", "cupy": "primitives.device"}
"""Libraries that one package alone imports: all other code uses what that package offers."""

EXCEPTIONS: dict[str, str] = {}
"""What breaks a rule for the time being, and what mends it. One that is no longer needed fails, too."""

Arrow = tuple[str, str]


@dataclass(frozen=True)
class Rules:
    """The rules, for a tree of packages.

    Attributes:
        root: the package that holds the others, and modules with the names that users import: nothing imports these.
            Empty: the packages lie at the top.
        upper: the package whose rooms have an order; the only one that may import the others.
        lower: packages that never import `upper`.
        rooms: the rooms of `upper`, top to bottom.
        papers: the room with independent folders.
        loose: modules of `upper` that lie in no room.
        forbidden: top-level names that nothing imports.
        confined: the only package that imports a library, by the library's top-level name.
        exceptions: as `EXCEPTIONS`.
    """

    root: str = "placerl"
    upper: str = "harness"
    lower: tuple[str, ...] = ("primitives",)
    rooms: tuple[str, ...] = ROOMS
    papers: str = PAPERS
    loose: tuple[str, ...] = LOOSE
    forbidden: tuple[str, ...] = BASELINES
    confined: dict[str, str] = field(default_factory=lambda: CONFINED)
    exceptions: dict[str, str] = field(default_factory=lambda: EXCEPTIONS)


class FloorPlan:
    """The imports of some packages, and where they break `rules`.

    Args:
        rules: what holds; the packages must be importable and are not run.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        packages = (rules.upper, *rules.lower)
        roots = (rules.root,) if rules.root else packages
        graph = grimp.build_graph(*roots, include_external_packages=True, cache_dir=None)
        found = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
        self.imports = {
            self._own(name): {self._own(other) for other in imported}
            for name, imported in found.items()
            if self._own(name).split(".")[0] in packages
        }
        self.modules = sorted(self.imports)
        self.arrows = sorted((one, other) for one, found in self.imports.items() for other in found)
        """Importing and imported module."""
        self.circles = sorted(circles(self.imports))

    def _own(self, module: str) -> str:
        """Return the name of a module without the root that holds all; that of a name for users keeps it."""
        name = module.removeprefix(f"{self.rules.root}.")
        return name if name.split(".")[0] in (self.rules.upper, *self.rules.lower) else module

    def room(self, module: str) -> str:
        """Return the room of a module of `upper`; empty for another package's and for one in no room."""
        package, _, rest = module.partition(".")
        room = rest.partition(".")[0]
        return room if package == self.rules.upper and room not in self.rules.loose else ""

    def arrows_between_rooms(self) -> dict[Arrow, int]:
        """Return the number of imports by importing and imported room."""
        counts: dict[Arrow, int] = {}
        for one, other in self.arrows:
            pair = self.room(one), self.room(other)
            if all(pair) and pair[0] != pair[1]:
                counts[pair] = counts.get(pair, 0) + 1
        return counts

    def _broken(self) -> list[str]:
        """Return everything that breaks a rule, known or not."""
        return [
            *self._rooms(),
            *(f"{one} -> {other}" for one, other in self.arrows if self._forbidden(one, other)),
            *(f"circle: {', '.join(circle)}" for circle in self.circles),
        ]

    def violations(self) -> list[str]:
        """Return what breaks a rule and is no exception, and the exceptions that are no longer needed."""
        broken, known = self._broken(), self.rules.exceptions
        return [
            *(one for one in broken if one not in known),
            *(f"exception no longer needed, delete it: {one}" for one in known if one not in broken),
        ]

    def _rooms(self) -> Iterator[str]:
        """Modules and folders that `rooms` does not name, and rooms that are not there."""
        there = {room for name in self.modules if (room := self.room(name))}
        for room in sorted(there - {*self.rules.rooms}):
            yield f"in no room: {self.rules.upper}.{room}"
        for room in self.rules.rooms:
            if not any(name.startswith(f"{self.rules.upper}.{room}.") for name in self.modules):
                yield f"room without files: {self.rules.upper}.{room}"

    def _forbidden(self, one: str, other: str) -> bool:
        rules, top = self.rules, other.partition(".")[0]
        # Of the root itself an import says nothing: compiled modules, which are not read, are listed as it.
        if (
            top in rules.forbidden
            or other.startswith(f"{rules.root}.")
            or (top == rules.upper and one.partition(".")[0] in rules.lower)
        ):
            return True
        if top in rules.confined:
            return not f"{one}.".startswith(f"{rules.confined[top]}.")
        if top != rules.upper or one.partition(".")[0] != rules.upper:
            return False
        if other.partition(".")[2] in rules.loose:
            return True
        above, below = self.room(one), self.room(other)
        if below == rules.papers and above != rules.rooms[0] and self._of_another_paper(one, other):
            return True
        order = rules.rooms
        return above in order and below in order and order.index(above) > order.index(below)

    def _of_another_paper(self, one: str, other: str) -> bool:
        room = f"{self.rules.upper}.{self.rules.papers}"
        folders = {
            name.split(".")[2] for name in self.modules if name.startswith(room) and name.count(".") > 2
        }
        importing, imported = (name.removeprefix(room).strip(".").partition(".")[0] for name in (one, other))
        return imported in folders and importing != imported

    def drawing(self) -> str:
        """Return the rooms, top to bottom, with what each imports, and the counts of rooms, arrows and circles."""
        between = self.arrows_between_rooms()
        rooms = [room for room in self.rules.rooms if any(self.room(name) == room for name in self.modules)]
        width = max(map(len, rooms), default=0)
        lines = [
            f"  {room:{width}}  -> {' '.join(below for below in rooms if (room, below) in between)}"
            for room in rooms
        ]
        counts = (
            f"{len(rooms)} rooms, {len(between)} arrows between them, {len(self.circles)} circles of files"
        )
        return "\n".join([f"{self.rules.upper}: {counts}", *lines])


def circles(imports: dict[str, Collection[str]]) -> Iterable[tuple[str, ...]]:
    """Return the groups of modules that import each other, directly or not, each in alphabetical order.

    Args:
        imports: the modules that each module imports; names that are no key are skipped.
    """
    reached = {name: _reached(name, imports) for name in imports}
    groups = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in imports}
    return {group for group in groups if group}


def _reached(start: str, imports: dict[str, Collection[str]]) -> set[str]:
    """Modules that importing `start` imports; `start` itself only where a circle leads back to it."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imports[waiting.pop()]:
            if name in imports and name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def main() -> int:
    """Draw the tree's rooms; 1 where an import breaks a rule."""
    plan = FloorPlan(Rules())
    print(plan.drawing())
    for one in (violations := plan.violations()):
        print(one, file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
