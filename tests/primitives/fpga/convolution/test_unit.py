"""Convolutions through the layout transformation and the core: PyTorch's results, and cycles to the cycle."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.compute_unit.unit import ComputeUnit
from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.cycles.convolution import MOVE_CYCLES
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.plan import DATAFLOWS
from tests.primitives.fpga.convolution.golden import toeplitz
from tests.primitives.fpga.convolution.simulation import SimulatedConvolution
from tests.primitives.fpga.convolution.unit import ConvolutionUnit
from tests.primitives.fpga.cycles import convolution as model
from tests.primitives.fpga.gemm import float_golden
from tests.primitives.fpga.interpreter import interpreted

Images = NDArray[np.int64]
small = st.integers(1, 3)


@cache
def unit(side: int = 2) -> SimulatedConvolution:
    return SimulatedConvolution(
        side=side,
        width=8,
        accumulator_width=32,
        accumulator_depth=32,
        operand_blocks=128,
        result_blocks=128,
        tensor_words=256,
        start=interpreted,
    )


def channels_first(images: Images) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).double()


def kernels_first(kernels: Images) -> torch.Tensor:
    return torch.from_numpy(kernels).permute(3, 2, 0, 1).double()


def random(rng: np.random.Generator, *shape: int) -> Images:
    return rng.integers(-128, 128, shape)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@settings(max_examples=3, deadline=None)
@given(
    channels=small,
    outputs=small,
    size=st.tuples(st.integers(2, 4), st.integers(2, 4)),
    kernel=st.tuples(small, small),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    windows=st.sampled_from([0, 8]),
    seed=st.integers(0, 2**32),
)
def test_a_convolution_and_its_cycles(
    dataflow: str,
    channels: int,
    outputs: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    padding: int,
    windows: int,
    seed: int,
) -> None:
    assume(all(k <= s + 2 * padding for k, s in zip(kernel, size, strict=True)))
    rng = np.random.default_rng(seed)
    images, kernels = random(rng, 2, *size, channels), random(rng, *kernel, channels, outputs)
    convolution = Convolution(channels, *size, kernel, stride, padding, 2)
    found = unit().forward(
        images, kernels, stride=stride, padding=padding, dataflow=dataflow, windows=windows
    )
    wanted = torch.nn.functional.conv2d(
        channels_first(images), kernels_first(kernels), stride=stride, padding=padding
    )
    np.testing.assert_array_equal(found.result, wanted.permute(0, 2, 3, 1).numpy())
    explained(convolution, outputs, found.cycles, dataflow, windows, transposed=False)


def explained(
    convolution: Convolution, outputs: int, cycles: int, dataflow: str, windows: int, *, transposed: bool
) -> None:
    """Asserts that the model has the cycles, and that its terms lead there from Equation 5."""
    room = unit().windows(convolution, outputs, dataflow, transposed=transposed)
    options: dict[str, Any] = {
        "side": 2,
        "dataflow": dataflow,
        "windows": min(windows or room, room),
        "transposed": transposed,
    }
    assert cycles == model.convolution_cycles(convolution, outputs, **options)
    whole = model.whole_band(convolution)
    shape = model.band_shape(convolution, whole, outputs, transposed=transposed)
    stated = gemm.ppo_cycles(shape, side=2, dataflow=dataflow)
    assert stated + sum(model.difference_terms(convolution, outputs, **options).values()) == cycles


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_the_gradients_of_a_convolution(dataflow: str) -> None:
    rng = np.random.default_rng(0)
    images, kernels, gradients = random(rng, 2, 5, 5, 2), random(rng, 3, 3, 2, 3), random(rng, 2, 2, 2, 3)
    wide = [channels_first(images), kernels_first(kernels), channels_first(gradients)]
    of_kernels = unit().weight_gradient(
        images, gradients, kernel=(3, 3), stride=2, dataflow=dataflow, windows=4
    )
    wanted = torch.nn.grad.conv2d_weight(wide[0], wide[1].shape, wide[2], stride=2)
    np.testing.assert_array_equal(of_kernels.result, wanted.permute(2, 3, 1, 0).numpy())
    convolution = Convolution(2, 5, 5, (3, 3), 2, 0, 2)
    explained(convolution, 3, of_kernels.cycles, dataflow, 4, transposed=True)

    of_images = unit().backward(gradients, kernels, stride=2, dataflow=dataflow)
    wanted = torch.nn.grad.conv2d_input(wide[0].shape, wide[1], wide[2], stride=2)
    np.testing.assert_array_equal(of_images.result, wanted.permute(0, 2, 3, 1).numpy())
    explained(Convolution(3, 3, 3, (3, 3), 1, 2, 2), 2, of_images.cycles, dataflow, 0, transposed=False)


def test_transformation_is_hidden_where_products_take_longer() -> None:
    convolution = Convolution(16, 20, 20, (4, 4), 2, images=8)
    options: dict[str, Any] = {"side": 16, "windows": 162}
    for outputs, hidden in ((64, True), (4, False)):
        terms = model.difference_terms(convolution, outputs, dataflow="WS", **options)
        assert (terms["waits"] == 0) is hidden
        assert terms["first band"] == 162 * 4 * 4 + MOVE_CYCLES


def test_what_the_unit_refuses() -> None:
    images, kernels = np.zeros((1, 4, 4, 2), int), np.zeros((3, 3, 2, 1), int)
    with pytest.raises(ValueError, match="images, kernels: found shapes"):
        unit().forward(images, kernels[:, :, :1])
    with pytest.raises(ValueError, match="images: found 288 words; allowed: 256"):
        unit().forward(np.zeros((9, 4, 4, 2), int), kernels)
    with pytest.raises(ValueError, match="windows: found 1; allowed: 2"):
        unit().forward(images, kernels, windows=1)
    with pytest.raises(ValueError, match="dataflow: found 'OS'"):
        unit().forward(images, kernels, dataflow="OS")
    with pytest.raises(ValueError, match="square"):
        unit().backward(images, np.zeros((3, 2, 1, 2), int))
    row_by_row = ComputeUnit(core=GemmCore(side=2), operand_blocks=2, result_blocks=2)
    with pytest.raises(ValueError, match="allowed: a core with block_load"):
        ConvolutionUnit(unit=row_by_row, tensor_lines=2)


@pytest.mark.slow
@pytest.mark.skipif(bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason())
def test_a_larger_convolution_in_verilator() -> None:
    rng = np.random.default_rng(0)
    compiled = SimulatedConvolution(side=4, tensor_words=1 << 14)
    images, kernels = random(rng, 3, 20, 20, 6), random(rng, 4, 4, 6, 9)
    wanted = torch.nn.functional.conv2d(channels_first(images), kernels_first(kernels), stride=2)
    convolution = Convolution(6, 20, 20, (4, 4), 2, images=3)
    for dataflow in DATAFLOWS:
        found = compiled.forward(images, kernels, stride=2, dataflow=dataflow)
        np.testing.assert_array_equal(found.result, wanted.permute(0, 2, 3, 1).numpy())
        windows = compiled.windows(convolution, 9, dataflow)
        assert found.cycles == model.convolution_cycles(
            convolution, 9, side=4, dataflow=dataflow, windows=windows
        )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason())
def test_ppos_layers_on_an_array_of_16_x_16() -> None:
    """Fully connected ones (Hopper, Humanoid: images of one pixel), and the convolutions of Pong."""
    rng = np.random.default_rng(0)
    compiled = SimulatedConvolution(
        side=16, accumulator_depth=2048, operand_blocks=8192, result_blocks=8192, tensor_words=1 << 17
    )
    layers = (
        (Convolution(64, 1, 1, (1, 1), images=512), 64),
        (Convolution(128, 1, 1, (1, 1), images=512), 64),
        (Convolution(4, 84, 84, (8, 8), 4), 32),
        (Convolution(32, 20, 20, (4, 4), 2, images=2), 64),
        (Convolution(64, 9, 9, (3, 3), images=4), 64),
    )
    for convolution, outputs in layers:
        c = convolution
        images = random(rng, c.images, c.height, c.width, c.channels)
        kernels = random(rng, *c.kernel, c.channels, outputs)
        wanted = torch.nn.functional.conv2d(channels_first(images), kernels_first(kernels), stride=c.stride)
        for dataflow in DATAFLOWS:
            found = compiled.forward(images, kernels, stride=c.stride, dataflow=dataflow)
            np.testing.assert_array_equal(found.result, wanted.permute(0, 2, 3, 1).numpy())
            windows = compiled.windows(c, outputs, dataflow)
            assert found.cycles == model.convolution_cycles(
                c, outputs, side=16, dataflow=dataflow, windows=windows
            )


@pytest.mark.slow
@pytest.mark.timeout(900)  # Verilator builds the unit
def test_a_convolution_of_pong_in_float32_is_the_golden_models_bit_by_bit() -> None:
    """NatureCNN's first layer on one stack of frames: 400 windows of 256 numbers, 32 kernels (PPO 5.1)."""
    pong = SimulatedConvolution(
        side=4,
        width=32,
        accumulator_width=32,
        accumulator_depth=512,
        float32=True,
        operand_blocks=4096,
        result_blocks=800,
        tensor_words=1 << 15,
    )
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (1, 84, 84, 4)).astype(np.float32) / np.float32(255)
    kernels = rng.standard_normal((8, 8, 4, 32)).astype(np.float32)
    for dataflow in ("NS", "IS"):
        outcome = pong.forward(
            float_golden.words(images), float_golden.words(kernels), stride=4, dataflow=dataflow
        )
        expected = float_golden.product(
            toeplitz(images, (8, 8), 4), kernels.reshape(256, 32), side=4, dataflow=dataflow
        )
        assert outcome.result.shape == (1, 20, 20, 32)
        np.testing.assert_array_equal(outcome.result.reshape(400, 32), float_golden.words(expected))
