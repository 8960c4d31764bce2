"""Layers in lines of P numbers: folded ones, and those that do not fit each other."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.convolution.layer_shape import folded
from placerl.primitives.fpga.convolution.program import ImageProgram
from placerl.primitives.fpga.cycles.networks import GemmLayer, cnn, mlp


def test_a_folded_layer_has_the_same_windows() -> None:
    """Pong's first layer: 8 x 8 in steps of 4 over 84 x 84 x 4 are 2 x 2 over 21 x 21 x 64."""
    (layer,) = cnn((84, 84), 4, ((32, 8, 4),), ())[:1]
    found = folded(layer)
    assert found == GemmLayer(64, 32, (2, 2), (21, 21), (20, 20))
    assert found.weights == layer.weights


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ((GemmLayer(2, 2, (2, 2), (7, 7), (3, 3)),), "windows that reach"),
        ((*mlp(3, 4), *mlp(6, 2)), "lines of inputs"),
        ((GemmLayer(2, 6, (1, 1), (2, 2), (2, 2)), GemmLayer(6, 6, (2, 2), (2, 2), (1, 1))), "powers of two"),
    ],
)
def test_layers_that_do_not_fit_are_refused(layers: tuple[GemmLayer, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ImageProgram(layers, 1, 2, window_blocks=64, delta_blocks=64).forward()
