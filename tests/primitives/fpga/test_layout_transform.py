"""The layout transformation module: every address in order, one a cycle, and a convolution as a product."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from primitives.fpga import simulation
from primitives.fpga.layout_transform import Convolution, LayoutTransform, moves_golden

side = st.integers(1, 5)


def moves(convolution: Convolution, **options: object) -> simulation.Run:
    commands = {name: np.array([value]) for name, value in convolution.command().items()}
    rows, columns = convolution.matrix_size
    module = simulation.interpreted(LayoutTransform())
    return module.run({"commands": commands}, {"moves": rows * columns}, **options)


@settings(max_examples=10, deadline=None)
@given(
    channels=st.integers(1, 3),
    size=st.tuples(side, side),
    kernel=st.tuples(side, side),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
)
def test_addresses_are_those_of_the_toeplitz_matrix(
    channels: int, size: tuple[int, int], kernel: tuple[int, int], stride: int, padding: int
) -> None:
    assume(all(k <= s + 2 * padding for k, s in zip(kernel, size, strict=True)))
    convolution = Convolution(channels, *size, kernel, stride, padding)
    run = moves(convolution)
    found = run.outputs["moves"]
    wanted = list(moves_golden(convolution))
    assert [
        None if zero else source for source, zero in zip(found["source"], found["zero"], strict=True)
    ] == [source for source, _ in wanted]
    assert found["target"].tolist() == [target for _, target in wanted]
    assert found["last"].tolist() == [0] * (len(wanted) - 1) + [1]
    # One a cycle, from the cycle after the command on.
    assert (np.diff(run.output_cycles["moves"]) == 1).all()
    assert run.output_cycles["moves"][0] == run.input_cycles["commands"][0] + 1


def test_waits_for_its_consumer_and_takes_the_next_command() -> None:
    convolution = Convolution(2, 3, 4, (2, 2), stride=1, padding=1)
    at_once, slowly = moves(convolution), moves(convolution, ready={"moves": [False, True, False]})
    for name, values in at_once.outputs["moves"].items():
        np.testing.assert_array_equal(slowly.outputs["moves"][name], values)
    commands = {name: np.array([value] * 2) for name, value in convolution.command().items()}
    rows, columns = convolution.matrix_size
    twice = simulation.interpreted(LayoutTransform()).run(
        {"commands": commands}, {"moves": 2 * rows * columns}
    )
    for name, values in at_once.outputs["moves"].items():
        np.testing.assert_array_equal(twice.outputs["moves"][name], np.tile(values, 2))


def test_a_convolution_is_a_product_with_the_transformed_tensor() -> None:
    rng = np.random.default_rng(0)
    convolution = Convolution(3, 5, 6, (3, 2), stride=2, padding=1)
    tensor, kernels = rng.integers(-9, 9, (3, 5, 6)), rng.integers(-9, 9, (4, 3, 3, 2))
    found = moves(convolution).outputs["moves"]
    rows, columns = convolution.matrix_size
    values = np.where(found["zero"], 0, tensor.reshape(-1)[np.where(found["zero"], 0, found["source"])])
    matrix = values.reshape(columns, rows).T
    product = (kernels.reshape(4, -1) @ matrix).reshape(4, *convolution.out_size)
    around = np.pad(tensor, ((0, 0), (1, 1), (1, 1)))
    for row, column in np.ndindex(convolution.out_size):
        window = around[:, row * 2 : row * 2 + 3, column * 2 : column * 2 + 2]
        np.testing.assert_array_equal(product[:, row, column], (kernels * window).sum(axis=(1, 2, 3)))


def test_what_is_no_convolution_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel"):
        Convolution(1, 2, 2, (3, 3))
    with pytest.raises(ValueError, match="convolution"):
        Convolution(0, 2, 2, (1, 1))
