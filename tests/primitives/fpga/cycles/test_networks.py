"""Networks as the products of their layers."""

import pytest

from placerl.primitives.fpga.cycles import networks
from placerl.primitives.fpga.gemm.plan import GemmShape


def test_layers_are_the_products_of_equation_6() -> None:
    convolution = networks.PPO_NETWORKS["Pong"][1]
    assert convolution == networks.GemmLayer(32, 64, (4, 4), (20, 20), (9, 9))
    assert convolution.forward(2) == GemmShape(2 * 81, 16 * 32, 64)
    assert convolution.backward(2) == GemmShape(2 * 400, 16 * 64, 32)
    assert convolution.weight_gradient(2) == GemmShape(16 * 32, 2 * 81, 64)
    weights = sum(layer.weights for layer in networks.PPO_NETWORKS["Pong"])
    assert weights * 32 / 1e6 == pytest.approx(54, abs=1)  # PPO 3.1: 54 Mbit
