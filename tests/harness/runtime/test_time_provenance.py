"""Which provenance a mapping's time has: that of the backends that tell it."""

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import time_provenance
from placerl.primitives import learner, sum_tree


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
    assert time_provenance.of_mapping(Mapping.parse(mapping)) is expected


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
    assert time_provenance.is_simulated(Mapping.parse(mapping)) is expected
