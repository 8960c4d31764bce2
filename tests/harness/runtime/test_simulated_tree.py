"""The simulated FPGA's sum tree has the sub-trees that MAP's exploration chooses for its board and batch size."""

from types import SimpleNamespace

import pytest

from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping import Mapping, Target
from placerl.harness.runtime import compose, simulated_tree
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore.map_replay import replay_design
from placerl.primitives.sum_tree.fpga_backend import unavailable_reason


@pytest.mark.parametrize("batch_size", [4, 32, 256])
@pytest.mark.parametrize(("name", "board"), [("fpga", "u200"), ("fpga:u200", "u200"), ("fpga:u50", "u50")])
def test_the_sub_trees_are_those_of_the_exploration(name: str, board: str, batch_size: int) -> None:
    expected = replay_design(batch_size, 50_000, 16, catalogue.device(board))
    target = Target.parse(name)
    assert simulated_tree.explored(target, 50_000, 16, batch_size) == expected
    assert simulated_tree.options(target, 50_000, 16, batch_size) == {
        "banks": expected.banks,
        "contents": "software",
    }


@pytest.mark.parametrize("name", ["native", "opencl", "fpga:u999"])
def test_other_targets_have_no_such_options(name: str) -> None:
    assert simulated_tree.options(Target.parse(name), 50_000, 16, 32) == {}


@pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason() or "available")
def test_a_replay_is_made_with_them(short) -> None:
    """At most as many as a batch has requests, and by the workload's own batch size unless another is given."""
    task, mapping = short("cartpole-dqn"), Mapping.parse("native-fpga:u200-cpu")
    banks = [
        compose.replay_of(task, mapping, compose.storage_of(task, mapping), Fusion.NONE, size).tree.banks
        for size in (1, 7)
    ]
    assert banks == [1, 4]
    assert simulated_tree.stated(SimpleNamespace(replay=SimpleNamespace(tree=SimpleNamespace(banks=4)))) == {
        "banks": 4
    }
    assert simulated_tree.stated(SimpleNamespace(replay=SimpleNamespace(tree=object()))) == {}
    assert simulated_tree.stated(SimpleNamespace()) == {}  # on-policy
    own = simulated_tree.explored(
        mapping.rmm, task.replay.capacity, task.replay.fanout, task.training.batch_size
    )
    storage = compose.storage_of(task, mapping)
    assert compose.replay_of(task, mapping, storage, Fusion.NONE).tree.banks == own.banks
