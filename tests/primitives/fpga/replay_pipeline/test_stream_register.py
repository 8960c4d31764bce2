"""The register of a stream: every item once and in order, an item per cycle, and `ready` from a register."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.replay_pipeline.stream_register import StreamRegister
from tests.primitives.fpga import restarted
from tests.primitives.fpga.proof import Proof, mutated, needs_proofs


@settings(max_examples=20)
@given(
    gaps=st.lists(st.sampled_from([0, 0, 1, 3]), min_size=1, max_size=20),
    ready=st.lists(st.booleans(), max_size=5),
)
def test_every_item_passes_once_and_in_order(gaps: list[int], ready: list[bool]) -> None:
    model = restarted.interpreted(StreamRegister, 8)
    items = list(range(1, len(gaps) + 1))
    run = model.run(
        {"items": items}, {"out": len(items)}, gaps={"items": gaps}, ready={"out": [*ready, True]}
    )
    assert run.outputs["out"].tolist() == items


def test_an_item_passes_per_cycle_one_cycle_later() -> None:
    run = restarted.interpreted(StreamRegister, 8).run({"items": list(range(10))}, {"out": 10})
    assert run.cycles == 11


def test_ready_follows_the_receiver_a_cycle_later() -> None:
    model = restarted.interpreted(StreamRegister, 8)
    run = model.run({"items": list(range(4))}, {"out": 4}, ready={"out": [False] * 6 + [True]})
    assert run.outputs["out"].tolist() == [0, 1, 2, 3]
    # Two items fit. The receiver takes the first in cycle 6, and the third enters in the next.
    assert run.input_cycles["items"].tolist()[:3] == [0, 1, 7]


@pytest.mark.slow
@needs_proofs
@pytest.mark.parametrize(
    "bug",
    [
        None,
        ("spare_valid.eq(0),", ""),  # gives an item again and again
        ("[spare.eq(arrived), spare_valid.eq(1)]", "[spare.eq(arrived)]"),  # loses one
        ("Mux(spare_valid, spare, arrived)", "arrived"),
        ("self.out.ready | ~self.out.valid", "~self.out.valid"),
    ],
)
def test_proof_that_every_item_passes_once_and_in_order(bug: Any) -> None:
    """For all items and all pauses of both sides; and an item passes within two cycles of a ready receiver."""
    proof = Proof((mutated(StreamRegister, *bug) if bug else StreamRegister)(2))
    items, out = proof.block.items, proof.block.out
    proof.drive(items.valid, items.payload, out.ready)
    taken, given = items.valid & items.ready, out.valid & out.ready
    waits = proof.in_order(taken, items.payload, given, out.payload, most=2)
    proof.within(2, waits, out.ready)
    assert proof.holds(cycles=20) is (bug is None)
