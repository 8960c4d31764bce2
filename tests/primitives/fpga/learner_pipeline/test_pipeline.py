"""The learner pipeline in its RTL against its golden model: the same weights after two batches, and its cycles."""

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.convolution.layout_transform import Convolution, LayoutTransform
from placerl.primitives.fpga.cycles.convolution import transform_cycles
from placerl.primitives.fpga.cycles.learner import (
    Pass,
    map_pipeline_cycles,
    map_update_cycles,
    pipeline_cycles,
)
from placerl.primitives.fpga.host import float_word
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape
from placerl.primitives.fpga.learner_pipeline.pipeline import LearnerPipeline
from placerl.primitives.fpga.learner_pipeline.update_unit import corrections
from tests.primitives.fpga.cycles.convolution import whole_band
from tests.primitives.fpga.gemm.float_golden import floats
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.learner_pipeline import golden as model
from tests.primitives.fpga.learner_pipeline.golden import update_latency

TWO_LAYERS = (LayerShape(3, 3, 2), LayerShape(3, 2, 1))
THREE_LAYERS = (LayerShape(3, 5, 2), LayerShape(5, 4, 3), LayerShape(4, 2, 1))
RATE = 1e-2


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
    pipeline = interpreted(LearnerPipeline(layers, pipelines=pipelines, samples=samples))
    pipeline.run(loads(layers, states), {})
    pipeline.step(4)
    for step in (1, 2):
        rate, root = corrections(RATE, step)
        pipeline.write("rate", float_word(rate))
        pipeline.write("root", float_word(root))
        x = FORMAT.from_float(rng.uniform(-2, 2, (pipelines * samples, layers[0].inputs))).raw
        y = FORMAT.from_float(rng.uniform(-2, 2, (pipelines * samples, layers[-1].outputs))).raw
        run = pipeline.run(
            {f"samples_{p}": {"x": x[p::pipelines], "y": y[p::pipelines]} for p in range(pipelines)},
            {f"updated_{number}": layer.words for number, layer in enumerate(layers)},
        )
        begin = min(int(run.input_cycles[f"samples_{p}"][0]) for p in range(pipelines))
        expected_start = begin + pipeline_cycles(Pass(layers), samples=samples)
        for number, layer in enumerate(layers):
            end = expected_start + update_latency(layer, pipelines * samples)
            assert run.output_cycles[f"updated_{number}"][-1] == end
        states = model.train(states, x, y, rate, root)
        for number, (layer, state) in enumerate(zip(layers, states, strict=True)):
            updated = run.outputs[f"updated_{number}"]
            np.testing.assert_array_equal(updated["address"], np.arange(layer.words))
            expected = model.words(layer, state.weight).view(np.uint32)
            used = model.words(layer, np.ones_like(state.weight)) > 0  # lanes beyond the outputs hold nothing
            np.testing.assert_array_equal(updated["weights"][used], expected[used])


def test_a_convolution_is_a_layer_whose_samples_are_its_windows() -> None:
    """By im2col: the layout transformation's moves give the windows, and the pipeline trains on them as on samples."""
    shape = Convolution(channels=1, height=3, width=4, kernel=(2, 2), images=2)
    windows, words = shape.matrix_size
    layer = LayerShape(words, 2, 2)
    rng = np.random.default_rng(1)
    weight = rng.uniform(-1, 1, (layer.outputs, layer.inputs + 1)).astype(np.float32)
    image = FORMAT.from_float(
        rng.uniform(-2, 2, (shape.images, shape.height, shape.width, shape.channels))
    ).raw
    y = FORMAT.from_float(rng.uniform(-2, 2, (windows, layer.outputs))).raw

    module = interpreted(LayoutTransform(lanes=2))
    commands = {name: np.array([value]) for name, value in shape.command().items()}
    count = transform_cycles(shape, whole_band(shape), side=2)
    moves = module.run({"commands": commands}, {"moves": count}).outputs["moves"]
    x = np.zeros(shape.matrix_size, image.dtype)
    for row, column, source, count in zip(
        *(moves[n] for n in ("row", "column", "source", "count")), strict=True
    ):
        x[row, column : column + count] = image.ravel()[source : source + count]

    pipeline = interpreted(LearnerPipeline((layer,), samples=windows))
    pipeline.run(loads((layer,), [model.LayerState.of(weight)]), {})
    pipeline.step(4)
    rate, root = corrections(RATE, 1)
    pipeline.write("rate", float_word(rate))
    pipeline.write("root", float_word(root))
    run = pipeline.run({"samples_0": {"x": x, "y": y}}, {"updated_0": layer.words})
    end = pipeline_cycles(Pass((layer,)), samples=windows) + update_latency(layer, windows)
    assert run.output_cycles["updated_0"][-1] == run.input_cycles["samples_0"][0] + end

    convolution = torch.nn.Conv2d(shape.channels, layer.outputs, shape.kernel)
    kernel = weight[:, :-1].reshape(layer.outputs, *shape.kernel, shape.channels).transpose(0, 3, 1, 2)
    with torch.no_grad():
        convolution.weight.copy_(torch.from_numpy(kernel.copy()))
        assert convolution.bias is not None
        convolution.bias.copy_(torch.from_numpy(weight[:, -1]))
    target = torch.from_numpy(FORMAT.to_float(y)).float()
    adam = torch.optim.Adam(convolution.parameters(), lr=RATE)
    found = convolution(torch.from_numpy(FORMAT.to_float(image)).float().permute(0, 3, 1, 2))
    ((found.permute(0, 2, 3, 1).reshape(windows, -1) - target) ** 2).mean().backward()
    adam.step()
    expected = np.concatenate(
        [
            convolution.weight.detach().permute(0, 2, 3, 1).reshape(layer.outputs, -1).numpy(),
            convolution.bias.detach().numpy()[:, None],
        ],
        axis=1,
    )
    updated = floats(run.outputs["updated_0"]["weights"])
    np.testing.assert_allclose(updated, model.words(layer, expected), atol=1e-5)
    assert np.abs(updated - model.words(layer, weight)).min() > RATE / 2, "every weight moved"


def test_maps_formula_is_its_own() -> None:
    # PI + n - 1 samples' times of the slowest stage, n = 3 L; DP times the words of all layers.
    assert map_pipeline_cycles(Pass(THREE_LAYERS), samples=5) == (5 + 9 - 1) * 12
    assert map_update_cycles(Pass(THREE_LAYERS), pipelines=2) == 2 * (12 + 12 + 10)


def test_the_hardware_hides_the_fast_stages_that_maps_formula_charges_in_full() -> None:
    uneven = (LayerShape(64, 64, 4), LayerShape(64, 2, 2))
    assert pipeline_cycles(Pass(uneven), samples=32) < map_pipeline_cycles(Pass(uneven), samples=32)
