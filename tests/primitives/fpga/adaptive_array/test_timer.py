"""The timer of the adaptive array against the whole array, and against the closed form of its cycles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.adaptive_array.simulation import SimulatedAdaptiveArray
from placerl.primitives.fpga.adaptive_array.timer import AdaptiveTimer, command_fields
from placerl.primitives.fpga.cycles.fixar import layer_cycles

SIZES = st.integers(1, 20)


def timed(side: int, layers: list[dict[str, int]]) -> list[int]:
    commands = {name: np.array([each[name] for each in layers]) for name in layers[0]}
    run = simulation.interpreted(AdaptiveTimer(side=side)).run(
        {"commands": commands}, {"cycles": len(layers)}
    )
    return [int(cycles) for cycles in run.outputs["cycles"]]


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_the_timer_counts_the_cycles_of_the_whole_array(mode: str) -> None:
    cores, side = 2, 2
    array = SimulatedAdaptiveArray(cores=cores, side=side, width=4)
    shapes = [(2, 2, 1), (5, 3, 7), (3, 9, 2)]
    counted = [
        array.multiply(
            np.zeros((outputs, inputs), np.int64), np.zeros((inputs, vectors), np.int64), mode=mode
        )
        for outputs, inputs, vectors in shapes
    ]
    commands = [
        command_fields(*shape, cores=cores, side=side, inference=mode == "inference") for shape in shapes
    ]
    assert timed(side, commands) == [outcome.cycles for outcome in counted]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(2, 5),
    st.booleans(),
    st.booleans(),
)
def test_the_timer_agrees_with_the_closed_form(
    shapes: list[tuple[int, int, int]], cores: int, side: int, inference: bool, halves: bool
) -> None:
    options = {"cores": cores, "side": side, "inference": inference, "halves": halves}
    commands = [command_fields(*shape, **options) for shape in shapes]
    assert timed(side, commands) == [layer_cycles(*shape, **options) for shape in shapes]
