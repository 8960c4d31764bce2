"""What the FPGA's tree adds to the conformance suite: its numbers, its cycles, its options."""

import numpy as np
import pytest

from placerl.primitives import sum_tree
from placerl.primitives.fpga.cycles import replay
from placerl.primitives.sum_tree.fpga_backend import FpgaSumTree, unavailable_reason
from placerl.primitives.sum_tree.fpga_tree import SampledPaths, lanes_of

pytestmark = pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason())


def create(capacity: int, **options: object) -> FpgaSumTree:
    tree = sum_tree.create(capacity, backend="fpga", fanout=4, **options)
    assert isinstance(tree, FpgaSumTree)
    return tree


def test_priorities_are_rounded_to_fixed_point() -> None:
    tree = create(16, integer_bits=12, fraction_bits=4)
    priorities = np.array([0.0, 1e-9, 1 / 32, 3 / 32, 1.0, tree.priority_max])
    tree.update(np.arange(6), priorities)
    assert tree.get(np.arange(6)).tolist() == [0.0, 1 / 16, 1 / 16, 2 / 16, 1.0, 4095.9375]
    assert tree.total == 1 + 4 / 16 + 4095.9375
    with pytest.raises(ValueError, match="priorities: found 4096"):
        tree.update([0], [4096.0])


def test_calls_tell_their_cycles() -> None:
    tree = create(16, integer_bits=12, fraction_bits=4)
    timing = replay.level_timing(fanout=tree.fanout, narrow=False, samples=False)
    expected = replay.pipeline_cycles(10, levels=tree.levels, timing=timing)
    tree.update(np.arange(10), np.ones(10))
    assert tree.last_call_cycles == expected
    assert tree.find(np.arange(10) + 0.5).tolist() == list(range(10))
    assert tree.last_call_cycles == expected
    assert tree.cycles == 2 * expected
    assert tree.last_call_s == expected / 285e6
    assert tree.get([]).shape == (0,)
    assert tree.last_call_cycles == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["wide", "narrow"])
def test_remembered_paths_change_neither_results_nor_cycles(form: str) -> None:
    """Also in updates that are late, in another order, of some samples, or of leaves that were never sampled."""
    trees = [
        create(60, form=form, integer_bits=12, fraction_bits=4, remembers=remembers)
        for remembers in (True, False)
    ]
    rng = np.random.default_rng(2)
    waiting = [np.arange(60)]
    for number in range(6):
        indices = rng.permutation(waiting.pop(0))[: 40 if number else None]
        priorities = rng.integers(1, 90, len(indices)) / 16
        for tree in trees:
            tree.update(indices, priorities)
        while len(waiting) < 2:  # batches that are sampled ahead
            drawn = [tree.sample(50, np.random.default_rng(len(waiting) + number)) for tree in trees]
            assert drawn[0].tolist() == drawn[1].tolist()
            waiting.append(drawn[0])
            assert trees[0].last_call_cycles == trees[1].last_call_cycles
        assert trees[0].total == trees[1].total
        assert trees[0].cycles == trees[1].cycles > 0
    leaves = np.arange(60)
    assert trees[0].get(leaves).tolist() == trees[1].get(leaves).tolist()
    assert trees[0].remembered_updates == 5 * 40, "all but those of the first update"
    assert trees[1].remembered_updates == 0


def test_a_path_that_later_samples_have_overwritten_is_named_by_the_update() -> None:
    paths = SampledPaths(capacity=9, tag_bits=2)
    paths.keep(first := paths.tags(3), np.array([5, 6, 5]))
    assert first.tolist() == [0, 1, 2]
    tags, known = paths.of(np.array([5, 6, 7]))
    assert (tags[:2].tolist(), known.tolist()) == ([2, 1], [True, True, False])
    paths.keep(second := paths.tags(3), np.array([7, 8, 8]))
    assert second.tolist() == [3, 0, 1]
    assert paths.of(np.array([5, 6, 7, 8]))[1].tolist() == [True, False, True, True]
    paths.keep(paths.tags(6), np.array([0, 1, 2, 3, 4, 5]))
    assert paths.of(np.arange(9))[1].tolist() == [False, False, True, True, True, True, False, False, False]


def test_lanes_get_equal_parts_of_a_batch_and_a_leaf_is_written_by_one() -> None:
    leaves = np.random.default_rng(0).integers(0, 40, 60)
    lanes = lanes_of(leaves, 4, writes=True)
    assert all(len(set(lanes[leaves == leaf])) == 1 for leaf in leaves)
    assert np.bincount(lanes).tolist() == pytest.approx([15] * 4, abs=3)
    assert lanes_of(leaves, 4, writes=False).tolist() == np.repeat(range(4), 15).tolist()
    assert lanes_of(leaves[:0], 4, writes=True).tolist() == []


@pytest.mark.slow
@pytest.mark.parametrize("form", ["wide", "narrow"])
def test_banks_answer_as_one_tree(form: str) -> None:
    tree = create(300, banks=3, form=form, integer_bits=12, fraction_bits=4)
    other = sum_tree.create(300, backend="reference", fanout=4)
    rng = np.random.default_rng(0)
    for _ in range(20):
        indices, priorities = rng.integers(0, 300, 500), rng.integers(0, 50, 500).astype(float)
        tree.update(indices, priorities)
        other.update(indices, priorities)
        assert tree.total == other.total
        prefix = rng.random(500) * tree.total
        assert tree.find(prefix).tolist() == other.find(prefix).tolist()
        leaves = rng.integers(0, 300, 100)
        assert tree.get(leaves).tolist() == other.get(leaves).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "deep"}, "form: found 'deep'; allowed: wide, narrow"),
        ({"banks": 65}, "banks: found 65; allowed: 1 to 64"),
        ({"levels": 1}, "levels: found 1; allowed: 2 to 32"),
        ({"clock_hz": 0}, "clock_hz: found 0; allowed: above 0"),
        ({"integer_bits": 40}, "integer_bits: found 40; allowed: 0 to 32"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(16, **options)
