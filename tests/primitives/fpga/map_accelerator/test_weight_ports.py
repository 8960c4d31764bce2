"""The loader and the reader of weights: what is loaded is where it belongs, and is read back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.map_accelerator.weight_ports import WeightLoader
from tests.primitives.fpga.interpreter import interpreted

sizes = st.integers(1, 5)
shapes = st.one_of(
    st.builds(lambda i, o, lanes: LayerShape(i, o, min(o, lanes)), sizes, sizes, sizes),
    st.builds(lambda i, bits: LayerShape(i, 4, 4, 4 >> bits), sizes, st.integers(1, 2)),
)


@settings(max_examples=6, deadline=None)
@given(layers=st.lists(shapes, min_size=1, max_size=3), seed=st.integers(0, 99))
def test_numbers_reach_their_words_in_the_order_of_the_memories(layers: list[LayerShape], seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 1 << 32, (layer.update_words, layer.updates)) for layer in layers]
    numbers = np.concatenate([part.ravel() for part in words])
    loader = interpreted(WeightLoader(layers))
    run = loader.run(
        {"words": {"data": numbers, "last": np.zeros(len(numbers), np.int64)}},
        {f"load_{number}": layer.update_words for number, layer in enumerate(layers)},
    )
    for number, (layer, expected) in enumerate(zip(layers, words, strict=True)):
        found = run.outputs[f"load_{number}"]
        np.testing.assert_array_equal(found["address"], np.arange(layer.update_words))
        np.testing.assert_array_equal(found["weights"], expected)
