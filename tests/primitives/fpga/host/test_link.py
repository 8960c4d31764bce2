from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.host.axi import axi_stream
from placerl.primitives.fpga.host.link import StreamLink
from tests.primitives.fpga.host.golden import delivery_cycle
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.proof import Proof, mutated, needs_proofs

RATES = st.integers(1, 5).flatmap(lambda n: st.integers(n, 7).map(lambda d: Fraction(n, d)))


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 20), RATES, st.integers(1, 30))
def test_a_burst_is_delivered_in_the_formulas_cycles(latency: int, rate: Fraction, words: int) -> None:
    link = interpreted(StreamLink(16, latency_cycles=latency, words_per_cycle=rate))
    run = link.run({"inputs": list(range(words))}, {"outputs": words})
    expected = [delivery_cycle(word, latency, rate) for word in range(words)]
    assert run.output_cycles["outputs"].tolist() == expected
    assert run.outputs["outputs"].tolist() == list(range(words))


@settings(max_examples=10, deadline=None)
@given(
    st.integers(2, 9),
    RATES,
    st.lists(st.integers(0, 4), min_size=1, max_size=20),
    st.lists(st.booleans(), min_size=1, max_size=5).filter(any),
)
def test_no_word_is_lost_at_random_stalls(
    latency: int, rate: Fraction, gaps: list[int], ready: list[bool]
) -> None:
    shape = axi_stream(16).members["payload"].shape
    link = interpreted(StreamLink(shape, latency_cycles=latency, words_per_cycle=rate))
    words = {"data": list(range(len(gaps))), "last": [number % 2 for number in range(len(gaps))]}
    run = link.run({"inputs": words}, {"outputs": len(gaps)}, gaps={"inputs": gaps}, ready={"outputs": ready})
    assert {name: values.tolist() for name, values in run.outputs["outputs"].items()} == words
    assert (run.output_cycles["outputs"] - run.input_cycles["inputs"] >= latency).all()


@pytest.mark.parametrize(("latency", "rate"), [(1, 1), (2, 0), (2, 2)])
def test_wrong_parameters_are_refused(latency: int, rate: int) -> None:
    with pytest.raises(ValueError, match="allowed"):
        StreamLink(8, latency_cycles=latency, words_per_cycle=rate)


@pytest.mark.slow
@needs_proofs
@pytest.mark.parametrize(
    "bug",
    [
        None,
        ("line.write_enable.eq(running)", "line.write_enable.eq(1)"),
        ("line.read_enable.eq(running)", "line.read_enable.eq(1)"),
        ("Cat(taken, payload)", "Cat(self.inputs.valid, payload)"),
        ("running.eq(~self.outputs.valid | self.outputs.ready)", "running.eq(1)"),
    ],
)
def test_proof_that_every_word_is_delivered_once_and_in_order(bug: Any) -> None:
    """For all words and all pauses: also after its latency in cycles in which the receiver is ready."""
    latency = 4
    link = mutated(StreamLink, *bug) if bug else StreamLink
    proof = Proof(link(2, latency_cycles=latency, words_per_cycle=Fraction(2, 3)))
    inputs, outputs = proof.block.inputs, proof.block.outputs
    proof.drive(inputs.valid, inputs.payload, outputs.ready)
    taken, given = inputs.valid & inputs.ready, outputs.valid & outputs.ready
    waits = proof.in_order(taken, inputs.payload, given, outputs.payload, most=latency)
    proof.within(latency, waits, outputs.ready)
    proof.stays(outputs)
    assert proof.holds(cycles=14) is (bug is None)
