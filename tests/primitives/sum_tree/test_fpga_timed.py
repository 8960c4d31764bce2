"""The tree with contents in software gives the indices, the sums and the cycles of the simulated tree with data."""

import numpy as np
import pytest

from placerl.primitives import sum_tree
from placerl.primitives.sum_tree.fpga_backend import FpgaSumTree, unavailable_reason
from placerl.primitives.sum_tree.fpga_timed import TimedSumTree

pytestmark = pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason())
FIXED_POINT = {"integer_bits": 12, "fraction_bits": 4}


def both(capacity: int, **options: object) -> tuple[FpgaSumTree, TimedSumTree]:
    made = [
        sum_tree.create(capacity, backend="fpga", fanout=4, contents=contents, **FIXED_POINT, **options)
        for contents in ("hardware", "software")
    ]
    assert type(made[0]) is FpgaSumTree
    assert type(made[1]) is TimedSumTree
    return made[0], made[1]


def agree(hardware: FpgaSumTree, software: TimedSumTree, batches: int) -> None:
    rng = np.random.default_rng(0)
    for number in range(batches):
        count = int(rng.integers(1, 60))
        indices = rng.integers(0, hardware.capacity, count)
        if number % 5 == 4:  # all in one sub-tree, and repeated
            indices %= 3
        priorities = rng.random(count) * rng.integers(0, 2, count) * 9
        priorities[0] = 1e-9  # rounded up to one quantum
        for tree in (hardware, software):
            tree.update(indices, priorities)
        assert software.last_call_cycles == hardware.last_call_cycles
        assert software.total == hardware.total
        drawn = [tree.sample(count, np.random.default_rng(number)) for tree in (hardware, software)]
        assert drawn[0].tolist() == drawn[1].tolist()
        assert software.last_call_cycles == hardware.last_call_cycles
        assert software.get(indices).tolist() == hardware.get(indices).tolist()
        assert software.cycles == hardware.cycles > 0


def test_one_pipeline_agrees_with_the_hardware() -> None:
    agree(*both(16), batches=20)


@pytest.mark.slow
def test_several_sub_trees_agree_with_the_hardware() -> None:
    """Whichever lane's turn it is, and also at the change from reads to writes."""
    agree(*both(300, banks=3), batches=40)


def test_paths_that_the_hardware_remembers_take_the_cycles_of_the_software() -> None:
    """All updates but the first are of leaves that were just sampled."""
    hardware, software = both(16)
    indices = np.arange(16)
    for number in range(5):
        for tree in (hardware, software):
            tree.update(indices, np.full(16, 1.0 + number))
        assert software.last_call_cycles == hardware.last_call_cycles
        indices, found = (tree.sample(16, np.random.default_rng(number)) for tree in (hardware, software))
        assert indices.tolist() == found.tolist() == software.last_found.tolist()
    assert (hardware.remembered_updates, software.cycles) == (4 * 16, hardware.cycles)


def test_the_clock_gives_the_seconds() -> None:
    tree = sum_tree.create(16, backend="fpga", fanout=4, contents="software", clock_hz=1e6)
    tree.update([3], [1.0])
    assert tree.last_call_s == tree.last_call_cycles / 1e6 > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contents": "paper"}, "contents: found 'paper'; allowed: hardware, software"),
        ({"form": "narrow"}, "form: found 'narrow'; allowed with contents in software: wide"),
        (
            {"integer_bits": 28, "fraction_bits": 20},
            "capacity: found 64; allowed .*: a sum below 2.53 quanta",
        ),
    ],
)
def test_what_software_cannot_stand_in_for_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sum_tree.create(64, backend="fpga", fanout=4, **{"contents": "software", **options})
