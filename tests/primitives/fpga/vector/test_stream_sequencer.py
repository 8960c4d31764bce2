import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles.simulated_units import sequence_cycles
from placerl.primitives.fpga.vector.stream_sequencer import StreamSequencer
from tests.primitives.fpga import restarted


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=4))
def test_cycles_are_the_golden_models(commands: list[tuple[int, int]]) -> None:
    words, latency = np.array(commands).T
    run = restarted.interpreted(StreamSequencer).run(
        {"commands": {"words": words, "latency": latency}}, {"done": len(commands)}
    )
    np.testing.assert_array_equal(run.outputs["done"], words)
    taken = run.output_cycles["done"] - run.input_cycles["commands"]
    assert taken.tolist() == [sequence_cycles(*command) for command in commands]
