from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.host.axi import axi_stream
from placerl.primitives.fpga.host.link import StreamLink
from tests.primitives.fpga.host.golden import delivery_cycle
from tests.primitives.fpga.interpreter import interpreted

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
