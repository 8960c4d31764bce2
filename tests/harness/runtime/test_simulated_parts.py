"""Which provenance a mapping's time has, and the design of a simulated sum tree.

The first is that of the backends that tell the time. The sub-trees are those that MAP's exploration chooses for the
board and the batch size.
"""

from types import SimpleNamespace

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping import Mapping, Target
from placerl.harness.runtime import compose, simulated_parts
from placerl.harness.workloads.task import resized
from placerl.primitives import learner, sum_tree
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore.map_replay import replay_design
from placerl.primitives.sum_tree.fpga_backend import unavailable_reason


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("native-native-cpu", Provenance.MEASURED),
        ("torch:cuda-cuda-cpu", Provenance.MEASURED),
        ("native-fpga-cpu", Provenance.SIMULATED),
        ("native-fpga:u200-fpga:u200", Provenance.SIMULATED),
        ("fpga-native-cpu", Provenance.MODELLED),
        ("fpga:u200-fpga:u200-fpga:u200", Provenance.MODELLED),
    ],
)
def test_a_time_is_as_good_as_the_weakest_part_that_tells_it(mapping: str, expected: Provenance) -> None:
    assert simulated_parts.of_mapping(Mapping.parse(mapping)) is expected


def test_a_formula_gives_cycles_of_the_simulated_learner_and_of_no_other_backend() -> None:
    assert {(one.name, one.simulated) for one in learner.backends() if one.modelled} == {("fpga", True)}
    assert not any(one.modelled for one in sum_tree.backends())


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("fpga-native-cpu", True),
        ("native-fpga-cpu", True),
        ("fpga:u200-fpga:u200-fpga:u200", True),
        ("torch-native-cpu", False),
    ],
)
def test_a_run_is_in_virtual_time_where_learner_or_replay_is_simulated(mapping: str, expected: bool) -> None:
    assert simulated_parts.is_simulated(Mapping.parse(mapping)) is expected


@pytest.mark.parametrize("batch_size", [4, 32, 256])
@pytest.mark.parametrize(("name", "board"), [("fpga", "u200"), ("fpga:u200", "u200"), ("fpga:u50", "u50")])
def test_the_sub_trees_are_those_of_the_exploration(name: str, board: str, batch_size: int) -> None:
    expected = replay_design(batch_size, 50_000, 16, catalogue.device(board))
    target = Target.parse(name)
    assert simulated_parts.explored_tree(target, 50_000, 16, batch_size) == expected
    assert simulated_parts.tree_options(target, 50_000, 16, batch_size) == {
        "banks": expected.banks,
        "contents": "software",
    }


@pytest.mark.parametrize("name", ["native", "opencl", "fpga:u999"])
def test_other_targets_have_no_such_options(name: str) -> None:
    assert simulated_parts.tree_options(Target.parse(name), 50_000, 16, 32) == {}


@pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason() or "available")
def test_a_replay_is_made_with_them(short) -> None:
    """At most as many as a batch has requests."""
    task, mapping = short("cartpole-dqn"), Mapping.parse("native-fpga:u200-cpu")
    banks = [
        compose.replay_of(
            resized(task, size), mapping, compose.storage_of(task, mapping), Fusion.NONE
        ).tree.banks
        for size in (1, 7)
    ]
    assert banks == [1, 4]
    assert simulated_parts.tree_columns(
        SimpleNamespace(replay=SimpleNamespace(tree=SimpleNamespace(banks=4)))
    ) == {"banks": 4}
    assert simulated_parts.tree_columns(SimpleNamespace(replay=SimpleNamespace(tree=object()))) == {}
    assert simulated_parts.tree_columns(SimpleNamespace()) == {}  # on-policy
