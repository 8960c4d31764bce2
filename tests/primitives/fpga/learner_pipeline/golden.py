"""The golden model of the learner pipeline: an update on one batch, computed sample by sample in NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placerl.primitives.fpga.floating_point import golden
from placerl.primitives.fpga.floating_point.golden import Array
from placerl.primitives.fpga.learner_pipeline.layer import SUM_BITS
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, FRACTION, LayerShape
from placerl.primitives.fpga.learner_pipeline.policy_units import ONE, tanh_program
from placerl.primitives.fpga.learner_pipeline.update_unit import adam_latency, adam_program
from placerl.primitives.quantization.fixed_point import exact_matmul


@dataclass
class LayerState:
    """A layer's weights, and the moments that Adam keeps for them.

    Attributes:
        weight, mean, square: (outputs, inputs + 1) float32, with the biases in the last column.
    """

    weight: Array
    mean: Array
    square: Array

    @classmethod
    def of(cls, weight: Array) -> "LayerState":
        """Return the state of a layer with these weights before the first update: Adam's moments are 0."""
        return cls(weight, np.zeros_like(weight), np.zeros_like(weight))


def _summed(a: Array, b: Array) -> Array:
    """Return the exact product of two matrices of raw values, whose sums the hardware keeps in `SUM_BITS` bits.

    Raises:
        OverflowError: a sum needs more bits: the hardware would wrap.
    """
    sums = exact_matmul(a, b)
    most = (1 << SUM_BITS - 1) - 1
    if sums.size and not -most - 1 <= sums.min() <= sums.max() <= most:
        raise OverflowError(
            f"sum of products: found more than {SUM_BITS} bits; allowed: what the hardware holds"
        )
    return sums


def _with_one(values: Array) -> Array:
    return np.append(values, np.ones((len(values), 1), values.dtype) << FORMAT.fraction_bits, axis=1)


def train(layers: Sequence[LayerState], x: Array, y: Array, rate: float, root: float) -> list[LayerState]:
    """Return the states of all layers after one update on a batch, bit by bit as the hardware gives them.

    Args:
        layers: states before the batch.
        x, y: inputs (B, inputs) and targets (B, outputs), raw values of the fixed-point format `FORMAT`.
        rate, root: Adam's corrections (`update_unit.corrections`).
    """
    weights = [fixed(layer.weight) for layer in layers]
    activations = forward(weights, x)
    error = FORMAT.store(activations[-1].astype(np.int64) - y).raw
    sums = gradients(weights, activations, error)
    return [_updated(layer, part, len(x), rate, root) for layer, part in zip(layers, sums, strict=True)]


def fixed(weight: Array) -> Array:
    """Return float32 weights as raw values of `FORMAT`, as the forward and backward units hold them."""
    return FORMAT.from_float(weight).raw


def forward(weights: Sequence[Array], x: Array) -> list[Array]:
    """Return the inputs of every layer and the outputs of the last one, (B, neurons) int32 each.

    Args:
        weights: (outputs, inputs + 1) int32 of each layer, raw values of `FORMAT`, with the biases in the last column.
        x: inputs (B, inputs), raw values of `FORMAT`.
    """
    activations = [x]
    for number, weight in enumerate(weights):
        sums = _summed(_with_one(activations[-1]), weight.T)
        value = FORMAT.rescale(sums, 2 * FORMAT.fraction_bits).raw
        activations.append(value if number == len(weights) - 1 else np.maximum(value, 0))
    return activations


def gradients(weights: Sequence[Array], activations: Sequence[Array], error: Array) -> list[Array]:
    """Return the exact sums of all samples' gradients, (outputs, inputs + 1) int64 of each layer.

    Args:
        weights: of each layer, as `forward` takes them.
        activations: as `forward` returns them.
        error: (B, outputs) int32, the errors of the last layer.
    """
    sums: list[Array] = []
    for number in reversed(range(len(weights))):
        sums.insert(0, _summed(error.T, _with_one(activations[number])))
        if number:
            error = np.where(activations[number] > 0, _back(weights[number], error), 0)
    return sums


def input_errors(weights: Sequence[Array], activations: Sequence[Array], error: Array) -> Array:
    """Return the errors of a network's inputs, (B, inputs) int32; arguments as of `gradients`."""
    for number in reversed(range(1, len(weights))):
        error = np.where(activations[number] > 0, _back(weights[number], error), 0)
    return _back(weights[0], error)


def _back(weight: Array, error: Array) -> Array:
    """Return W^T d for a batch of errors d."""
    return FORMAT.rescale(_summed(error, weight[:, :-1]), 2 * FORMAT.fraction_bits).raw


def _updated(layer: LayerState, sums: Array, batch_size: int, rate: float, root: float) -> LayerState:
    summed = golden.from_fixed(sums, 2 * FORMAT.fraction_bits)
    scalars = [np.asarray(value, np.float32) for value in (rate, root)]
    inputs = [summed, layer.weight, layer.mean, layer.square, *scalars]
    return LayerState(*adam_program(batch_size).golden(inputs))


def words(layer: LayerShape, matrix: Array) -> Array:
    """Return a layer's matrix in the order of its weight memory.

    Args:
        layer: the layer.
        matrix: (outputs, inputs + 1), with the biases in the last column.

    Returns:
        (layer.words, lanes), with zeros beyond the outputs.
    """
    padded = np.zeros((layer.blocks * layer.lanes, layer.inputs + 1), matrix.dtype)
    padded[: layer.outputs] = matrix
    blocks = padded.reshape(layer.blocks, layer.lanes, layer.inputs + 1)
    return blocks.transpose(0, 2, 1).reshape(layer.words, layer.lanes)


@dataclass(frozen=True)
class TdLoss:
    """What the loss gives for a batch.

    Attributes:
        errors: (B, actions) int32, raw values of `FORMAT`.
        tds: (B,) int32, the TD errors in `FORMAT`.
    """

    errors: Array
    tds: Array


def td_loss(
    outputs: Array, targets: Array, batch: dict[str, Array], *, greedy: Array | None = None, huber: bool
) -> TdLoss:
    """Return the errors and TD errors of a batch, bit by bit as `TdLossUnit` gives them: its golden model.

    Args:
        outputs, targets: (B, actions) int32, q and t in `FORMAT`.
        batch: (B,) each: action, reward in `FORMAT`, discount and weight in `FRACTION`.
        greedy: (B, actions) int32, g for double DQN.
        huber: Huber's loss instead of the squared one.
    """
    rows = np.arange(len(outputs))
    following = targets[rows, np.argmax(targets if greedy is None else greedy, axis=1)].astype(np.int64)
    places = FORMAT.fraction_bits + FRACTION.fraction_bits
    discounted = FORMAT.rescale(following * batch["discount"].astype(np.int64), places).raw
    y = FORMAT.store(discounted.astype(np.int64) + batch["reward"]).raw
    td = FORMAT.store(y.astype(np.int64) - outputs[rows, batch["action"]]).raw
    slope = np.clip(td, -ONE, ONE) if huber else FORMAT.store(2 * td.astype(np.int64)).raw
    weighted = FORMAT.rescale(slope.astype(np.int64) * batch["weight"].astype(np.int64), places).raw
    errors = np.zeros_like(outputs)
    errors[rows, batch["action"]] = FORMAT.store(-weighted.astype(np.int64)).raw
    return TdLoss(errors, td)


def tanh_back(errors: Array, actions: Array) -> Array:
    """Return errors times 1 - a^2, raw values of `FORMAT`, bit by bit as `PolicyBackward` gives them."""
    places = 2 * FORMAT.fraction_bits
    wide = actions.astype(np.int64)
    slope = FORMAT.store(ONE - FORMAT.rescale(wide * wide, places).raw.astype(np.int64)).raw
    return FORMAT.rescale(errors.astype(np.int64) * slope, places).raw


def tanh(values: Array) -> Array:
    """Return tanh of raw values of `FORMAT`, int32, bit by bit as `TanhUnit` gives it."""
    real = golden.from_fixed(values.astype(np.int64), FORMAT.fraction_bits)
    (found,) = tanh_program().golden([real])
    return FORMAT.from_float(found).raw


def update_latency(layer: LayerShape, batch_size: int) -> int:
    """Return the cycles from the start of a layer's update to its last new weights.

    Args:
        layer: sizes of the layer.
        batch_size: samples of a batch.
    """
    return layer.words + adam_latency(batch_size)
