"""The learner pipeline in its RTL against its golden model: the same weights after two batches, and its cycles."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from primitives.fpga import simulation
from primitives.fpga.learner_pipeline import FORMAT, LayerShape, LearnerPipeline
from primitives.fpga.learner_pipeline import golden as model
from primitives.fpga.learner_pipeline.update_unit import corrections

TWO_LAYERS = (LayerShape(3, 3, 2), LayerShape(3, 2, 1))
THREE_LAYERS = (LayerShape(3, 5, 2), LayerShape(5, 4, 3), LayerShape(4, 2, 1))
RATE = 1e-2


def word(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def loads(layers: tuple[LayerShape, ...], states: list[model.LayerState]) -> dict[str, Any]:
    return {
        f"load_{number}": {
            "address": np.arange(layer.words),
            "weights": model.words(layer, state.weight).view(np.uint32),
        }
        for number, (layer, state) in enumerate(zip(layers, states, strict=True))
    }


@pytest.mark.parametrize(
    ("layers", "pipelines"),
    [
        (TWO_LAYERS, 2),
        pytest.param(THREE_LAYERS, 1, marks=pytest.mark.slow),
    ],
)
def test_two_batches_leave_the_golden_models_weights(layers: tuple[LayerShape, ...], pipelines: int) -> None:
    rng = np.random.default_rng(0)
    samples = 5
    states = [
        model.LayerState.of(rng.uniform(-1, 1, (layer.outputs, layer.inputs + 1)).astype(np.float32))
        for layer in layers
    ]
    pipeline = simulation.interpreted(LearnerPipeline(layers, pipelines=pipelines, samples=samples))
    pipeline.run(loads(layers, states), {})
    pipeline.step(4)
    for step in (1, 2):
        rate, root = corrections(RATE, step)
        pipeline.write("rate", word(rate))
        pipeline.write("root", word(root))
        x = FORMAT.from_float(rng.uniform(-2, 2, (pipelines * samples, layers[0].inputs))).raw
        y = FORMAT.from_float(rng.uniform(-2, 2, (pipelines * samples, layers[-1].outputs))).raw
        run = pipeline.run(
            {f"samples_{p}": {"x": x[p::pipelines], "y": y[p::pipelines]} for p in range(pipelines)},
            {f"updated_{number}": layer.words for number, layer in enumerate(layers)},
        )
        states = model.train(states, x, y, rate, root)
        for number, (layer, state) in enumerate(zip(layers, states, strict=True)):
            updated = run.outputs[f"updated_{number}"]
            np.testing.assert_array_equal(updated["address"], np.arange(layer.words))
            expected = model.words(layer, state.weight).view(np.uint32)
            used = model.words(layer, np.ones_like(state.weight)) > 0  # lanes beyond the outputs hold nothing
            np.testing.assert_array_equal(updated["weights"][used], expected[used])
