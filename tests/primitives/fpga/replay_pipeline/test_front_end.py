"""The first stage of a replay pipeline: proofs of the leaves, of the paths in turn and of the buffer of paths."""

from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Array, Cat, Mux, Signal

from placerl.primitives.fpga.replay_pipeline.front_end import FrontEnd
from placerl.primitives.fpga.replay_pipeline.layout import Operation, PipelineLayout, is_write
from tests.primitives.fpga.proof import Proof, mutated, needs_proofs

SIZES = {"fanout": 2, "levels": 2, "leaf_bits": 1, "tag_bits": 1}
LAYOUT, LAST_LEAF = PipelineLayout(**SIZES), 2
IN_USE, LAST_IN_USE = (
    PipelineLayout(**SIZES, leaves=2),
    1,
)  # the addresses of others are cut to those of these two
STAGES = 7  # five registers and the two of the output


@pytest.mark.slow
@needs_proofs
@pytest.mark.parametrize(
    "bug",
    [
        None,
        ("paths.read_address.eq(self.requests.payload.tag)", "paths.read_address.eq(self.sampled_tag)"),
        ("paths.write_enable.eq(self.sampled_valid)", "paths.write_enable.eq(1)"),
        ("found.remembered & (found.operation == Operation.UPDATE)", "found.remembered"),
        ("Mux(self._ends(next_path), 0, self._successor(next_path))", "self._successor(next_path)"),
        ("leaves.write.eq(writing)", "leaves.write.eq(valid)"),
    ],
)
def test_proof_that_every_request_gets_its_path_and_the_priority_before_it(bug: Any) -> None:
    """For all requests, samples and pauses: each request leaves once, in order, with what all before it have left.

    The path is its own, the next in turn, or that of the last finished sample with its tag (MAP IV-D4).
    """
    prove(bug, LAYOUT, host_names=LAST_LEAF, last_leaf=LAST_LEAF)


@pytest.mark.slow
@needs_proofs
@pytest.mark.parametrize(
    "bug",
    [
        None,
        ("ends = ends | (path", "ends = ends & (path"),
        ("writes & in_use, delayed", "writes, delayed"),
        ("Mux(in_use, old, 0)", "old"),
        ("leaf < layout.leaves", "leaf <= layout.leaves"),
    ],
)
def test_proof_that_a_leaf_that_is_not_in_use_stays_0(bug: Any) -> None:
    """The same for two leaves in use of four: the others read as 0, and insertions wrap before them."""
    prove(bug, IN_USE, host_names=IN_USE.leaves, last_leaf=LAST_IN_USE)


def prove(bug: Any, layout: PipelineLayout, *, host_names: int, last_leaf: int) -> None:
    """Prove it for the first stage without a bug, and find a counterexample for one with it.

    Args:
        host_names: the value of the port `last_leaf`.
        last_leaf: the leaf after which INSERT starts again at leaf 0.
    """
    proof = Proof((mutated(FrontEnd, *bug) if bug else FrontEnd)(layout))
    front_end, m = proof.block, proof.m
    proof.drive(front_end.requests.valid, front_end.requests.payload, front_end.steps.ready)
    proof.drive(front_end.sampled_valid, front_end.sampled_tag, front_end.sampled_path)
    m.d.comb += front_end.last_leaf.eq(host_names)

    request, step = front_end.requests.payload, front_end.steps.payload
    taken = front_end.requests.valid & front_end.requests.ready
    sampled = Array(Signal(layout.path_bits, name=f"sampled_{tag}") for tag in range(2))
    leaves = Array(Signal(layout.leaf_bits, name=f"leaf_{leaf}") for leaf in range(1 << layout.path_bits))
    turn, path, before = (Signal(bits) for bits in (layout.path_bits, layout.path_bits, layout.leaf_bits))
    with m.If(front_end.sampled_valid):
        m.d.sync += sampled[front_end.sampled_tag].eq(front_end.sampled_path)
    with m.Switch(request.operation):
        with m.Case(Operation.UPDATE):
            m.d.comb += path.eq(Mux(request.remembered, sampled[request.tag], request.path))
        with m.Case(Operation.GET):
            m.d.comb += path.eq(request.path)
        with m.Case(Operation.INSERT):
            m.d.comb += path.eq(turn)
    with m.If(request.operation != Operation.SAMPLE):
        m.d.comb += before.eq(leaves[path])
    in_use = path < layout.leaves
    with m.If(taken & is_write(request.operation) & in_use):
        m.d.sync += leaves[path].eq(request.value)
    with m.If(taken & (request.operation == Operation.INSERT)):
        m.d.sync += turn.eq(Mux(turn == last_leaf, 0, turn + 1))

    response = step.response
    waits = proof.in_order(
        taken,
        Cat(request.operation.as_value(), request.tag, path, before),
        front_end.steps.valid & front_end.steps.ready,
        Cat(response.operation.as_value(), response.tag, response.path, response.value),
        most=STAGES,
    )
    proof.within(STAGES, waits, front_end.steps.ready)
    assert proof.holds(cycles=13) is (bug is None)
