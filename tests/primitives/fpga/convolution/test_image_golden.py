"""The golden model of the convolutional accelerator is PyTorch's network, but for rounding."""

import numpy as np
import pytest
import torch

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.convolution.program import ImageProgram
from placerl.primitives.fpga.cycles.networks import cnn
from tests.primitives.fpga.convolution.image_golden import GoldenImages, random_step, random_weights


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_golden_model_is_pytorchs_network(activation: str) -> None:
    layers = cnn((6, 6), 3, ((3, 2, 1), (4, 3, 2), (4, 1, 1)), (5, 3))
    program = ImageProgram(layers, 2, 2, window_blocks=240, delta_blocks=16)
    rng = np.random.default_rng(1)
    golden = GoldenImages.of(program, random_weights(rng, program), activation)
    images, deltas = random_step(rng, program)
    passed = golden.forward(images)
    tensors = [torch.from_numpy(w.astype(np.float64)).requires_grad_() for w in golden.weights]
    a = torch.from_numpy(images.astype(np.float64))
    for shape, weights in zip(program.shapes, tensors, strict=True):
        layer = shape.layer
        a = a.reshape(2, *layer.in_size, layer.inputs)
        taps = weights[:-1].reshape(*layer.kernel, -1, weights.shape[1])[
            :, :, : layer.inputs, : layer.outputs
        ]
        z = torch.nn.functional.conv2d(
            a.permute(0, 3, 1, 2), taps.permute(3, 2, 0, 1), weights[-1, : layer.outputs], shape.stride
        ).permute(0, 2, 3, 1)
        a = torch.relu(z) if activation == "relu" else torch.tanh(z)
    z = z.reshape(2, -1)
    np.testing.assert_allclose(passed.output[:, :3], z.detach().numpy(), rtol=1e-4, atol=1e-5)
    z.backward(torch.from_numpy(deltas[:, :3].astype(np.float64)))
    for found, tensor in zip(golden.gradients(passed, deltas), tensors, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(found, tensor.grad.numpy(), rtol=1e-3, atol=1e-4)
