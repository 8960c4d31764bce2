"""The memory of a pipeline: each access sees all writes before it, however close, and whatever the pauses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.replay_pipeline.node_memory import READ_CYCLES, NodeMemory
from tests.primitives.fpga import restarted
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.resettable import Resettable, reset

ACCESSES = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 255)), max_size=25)


@settings(max_examples=30)
@given(accesses=ACCESSES, pauses=st.lists(st.integers(0, 2), max_size=6))
def test_each_access_sees_the_writes_before_it(
    accesses: list[tuple[int, bool, int]], pauses: list[int]
) -> None:
    model = restarted.interpreted(NodeMemory, width=8, depth=4)
    words, moves = [0] * 4, len(accesses) + READ_CYCLES
    for move in range(moves):
        pause = pauses[move % len(pauses)] if pauses else 0
        model.write("address", accesses[move][0] if move < len(accesses) else 0)
        late = move - READ_CYCLES
        address, writes, value = accesses[late] if late >= 0 else (0, False, 0)
        model.write("write", int(writes))
        model.write("write_data", value)
        model.write("advance", 0)
        model.step(pause)
        model.write("advance", 1)
        if late >= 0:
            assert model.read("word") == words[address]
            if writes:
                words[address] = value
        model.step(1)


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_every_word_is_cleared(depth: int) -> None:
    model = interpreted(Resettable(NodeMemory(width=8, depth=depth, clears=True)))
    model.step(depth)
    assert model.read("cleared") == 1
    model.write("advance", 1)
    for address in range(depth):
        model.write("address", address)
        model.step(2)
        model.write("write", 1)
        model.write("write_data", 9)
        model.step()
        model.write("write", 0)
    reset(model)
    model.step(depth)
    for address in range(depth):
        model.write("address", address)
        model.step(2)
        assert model.read("word") == 0
