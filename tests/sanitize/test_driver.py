"""The driver of `make sanitize` runs every place in the C++ that releases the interpreter's lock."""

import re
from collections import Counter
from collections.abc import Callable

import pytest

from tests.sanitize import driver, parts, reached

BINDINGS = {
    "harness/native/experiments.cpp": (5, ("experiments", "mujoco")),
    "primitives/environments/native/bindings.cpp": (3, ("environments", "mujoco")),
    "primitives/learner/fused/bound_steps.hpp": (1, ("fused_steps", "generators", "relaxed_steps", "rounds")),
    "primitives/learner/native/bindings.cpp": (3, ("learners",)),
    "primitives/learner/native/step_call.hpp": (1, ("learners",)),
    "primitives/learner/relaxed/bindings.cpp": (7, ("relaxed_steps",)),
    "primitives/quantization/native/bindings.cpp": (2, ("fixed_point",)),
    "primitives/replay/native/bindings.cpp": (2, ("generators", "replays", "relaxed_steps")),
    "primitives/sum_tree/native/plain_tree_bindings.hpp": (4, ("generators", "trees")),
    "primitives/training/native/bindings.cpp": (1, ("trainings",)),
    "primitives/training/native/iterations_bindings.hpp": (1, ("iterations",)),
    "primitives/training/native/rounds_bindings.hpp": (1, ("rounds",)),
}
"""Each file that releases the lock: in how many places, and which parts of the driver run them. `make sanitize` shows
that these are reached; add a new place here once it says so."""
OTHER_WAYS = re.compile(r"call_guard|PyEval_SaveThread|Py_BEGIN_ALLOW_THREADS|Py_UNBLOCK_THREADS")


def test_every_place_that_releases_the_lock_has_a_part() -> None:
    found = Counter(place.rpartition(":")[0] for place in driver.sources())
    assert found == {file: count for file, (count, _) in BINDINGS.items()}
    assert {part for _, names in BINDINGS.values() for part in names} == set(parts.PARTS)


def test_the_lock_is_released_in_one_way_only() -> None:
    files = [
        path for package in ("primitives", "harness") for path in (driver.ROOT / package).rglob("*.[ch]pp")
    ]
    assert not [path for path in files if OTHER_WAYS.search(path.read_text(encoding="utf-8"))]


def test_a_line_of_the_project_is_told_from_others() -> None:
    inside = driver.ROOT / "primitives" / "x.hpp"
    assert reached.own(f"{inside}:12 (discriminator 3)") == "primitives/x.hpp:12"
    assert reached.own("/usr/include/c++/12/thread:7") == ""
    assert reached.own("??:0") == ""


@pytest.mark.slow
@pytest.mark.parametrize("part", parts.PARTS.values(), ids=parts.PARTS)
def test_a_part_runs_without_sanitizers_too(part: Callable[[], None]) -> None:
    part()
