"""The tier `night`: what claims about learning need, in pieces of at most 20 minutes, for as many days as it takes.

Every piece is stored when it ends, and pieces are measured on as many cores as there are (`side_by_side`). What a claim
needs for the next look of its sequential test (`harness.measure.sequential`) comes before what any claim needs for
a later look, and of one look the trainings that take least time come first. A piece whose test has ended is not due.
"""

from collections import defaultdict
from collections.abc import Iterator

from placerl.harness import papers
from placerl.harness.plan.tiers import NIGHT
from placerl.harness.store.cell import Cell


def cells() -> list[Cell]:
    """Return the plan: the cells (pieces of work) of sequential tests, in the order of what they decide."""
    found = [cell for cell in papers.cells(NIGHT) if cell.look]
    seconds: dict[tuple[int, str], float] = defaultdict(float)
    for cell in found:
        seconds[cell.look, trainings_of(cell)] += cell.estimate_s
    order = {cell.key: (cell.look, seconds[cell.look, trainings_of(cell)]) for cell in found}
    return sorted(found, key=lambda cell: order[cell.key])


def trainings_of(cell: Cell) -> str:
    """Return the trainings that a cell belongs to: a claim's key and a workload, such as "MAP-F10/hopper-ddpg"."""
    return "/".join(cell.key.split("/")[1:3])


def looks(left: list[Cell]) -> Iterator[tuple[str, float, float]]:
    """Yield the seconds that each claim's trainings take until the next look, and until the last one."""
    by_name: dict[str, list[Cell]] = defaultdict(list)
    for cell in left:
        by_name[trainings_of(cell)].append(cell)
    for name, some in by_name.items():
        first = min(cell.look for cell in some)
        next_s = sum(cell.estimate_s for cell in some if cell.look == first)
        yield name, next_s, sum(cell.estimate_s for cell in some)
