"""The memory of a pipeline: each access sees all writes before it, however close, and whatever the pauses."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Assume, Signal

from placerl.primitives.fpga.replay_pipeline.node_memory import READ_CYCLES, NodeMemory
from placerl.primitives.fpga.replay_pipeline.stages import delayed
from tests.primitives.fpga import restarted
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.proof import Proof, mutated, needs_proofs
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


@pytest.mark.slow
@needs_proofs
@pytest.mark.parametrize(
    "bug",
    [
        None,
        ("changed.eq(self.write & (here == arriving))", "changed.eq(0)"),
        ("written & (written_address == arriving)", "0"),
        ("(written_address == arriving)", "1"),
        ("self.advance & self.write", "self.write"),
    ],
)
def test_proof_that_a_word_is_what_was_last_written(bug: Any) -> None:
    """For all addresses, words and pauses: the word of any one address, however close its accesses follow."""
    proof = Proof((mutated(NodeMemory, *bug) if bug else NodeMemory)(width=1, depth=4))
    memory, m = proof.block, proof.m
    proof.drive(memory.advance, memory.address, memory.write, memory.write_data)
    address, last = proof.free(memory.address.shape()), Signal(1)
    followed, started = Signal.like(address), Signal()
    with m.If(~started):
        m.d.sync += [followed.eq(address), started.eq(1)]
    asked = delayed(m, started & (memory.address == followed), READ_CYCLES, memory.advance)
    proof.asserts(~asked | (memory.word == last))
    with m.If(asked & memory.advance & memory.write):
        m.d.sync += last.eq(memory.write_data)
    # Nothing is written before the first address has arrived.
    arrived = delayed(m, started, READ_CYCLES, memory.advance)
    m.d.comb += Assume(arrived | ~memory.write)
    assert proof.holds(cycles=14) is (bug is None)
