"""The golden model: a DDPG update on integers, in the order of `primitives.algorithms.ddpg`.

It knows nothing of blocks, lines and programs. Its formats and its rounding (to the nearest, ties upwards) are those of
`primitives.quantization`, from which it differs in:

- the bias is added to a layer's exact sum, and the result rounded once; there the product is rounded first;
- gradients are rounded and added for each two samples, one a core; there once for the batch;
- Adam and tanh are in fixed point; there in binary64, with moments in binary32;
- a 16-bit code's step is a power of two, from the range seen so far, widened to be symmetric: Algorithm 1 with
  z = 2^15, so that a centred code is a signed half word; all networks' layers of the same place share it.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.fixar.adam import (
    _LIFT,
    _NUMERATOR_LIFT,
    _STEP_SHIFT,
    MEAN_GAIN,
    MEAN_GAIN_SHIFT,
    QUOTIENT_BITS,
    SQUARE_SHIFT,
    TAU_FRACTION,
    limited,
    rounded,
)
from placerl.primitives.fpga.fixar.cycles import step_cycles
from placerl.primitives.fpga.fixar.scalar import DISCOUNT_FRACTION, ERROR_SHIFT
from placerl.primitives.fpga.fixar.shape import (
    ACTIVATIONS,
    CORES,
    HALF_BITS,
    INPUTS,
    LEAST_SHIFT,
    MEAN_BITS,
    ONE,
    SCALES,
    SQUARE_BITS,
    WEIGHTS,
    WORD_BITS,
    FixarShape,
    LayerPlace,
)
from placerl.primitives.fpga.fixar.tanh import LIMIT, RISES, SEGMENT_BITS, SEGMENTS, TABLE

Integers = NDArray[np.int64]
PARTS = ("weights", "targets", "means", "squares")


@dataclass(frozen=True)
class UpdateSettings:
    """The host's numbers of an update, as the ports of `accelerator.Fixar` have them.

    Attributes:
        critic_rate, actor_rate, epsilon: of `adam.corrections`.
        tau: fraction by which the targets move, in 2^-16; below 1.
        actor_error: -1 / B, in 2^-24.
    """

    critic_rate: int
    actor_rate: int
    epsilon: int
    tau: int
    actor_error: int

    def __post_init__(self) -> None:
        """Raise ValueError for a `tau` that its register does not hold."""
        if not 0 <= self.tau < 1 << TAU_FRACTION:
            raise ValueError(f"tau: found {self.tau}; allowed: 0 to {(1 << TAU_FRACTION) - 1}, in 2^-16")


@dataclass
class RawBatch:
    """A batch of B transitions, raw values.

    Attributes:
        state, next_state: (B, S), 16 fraction bits.
        action: (B, A), 16 fraction bits.
        reward: (B,), 16 fraction bits.
        discount: (B,), discount x (1 - terminated), 30 fraction bits.
        weight: (B,), 2 x importance weight / B, 30 fraction bits.
    """

    state: Integers
    action: Integers
    reward: Integers
    next_state: Integers
    discount: Integers
    weight: Integers


@dataclass
class GoldenFixar:
    """The networks, their moments and the ranges of their activations.

    Attributes:
        shape: sizes of the accelerator.
        halves: whether activations have 16 bits.
        overlap: whether Adam runs alongside the next loop: the actor is trained through the critic before its update,
            and goals are of the actor's targets before the last update.
        layers: by network (0: actor, 1: critic) and layer the arrays "weights", "targets", "means" and "squares",
            (outputs, inputs + 1): the last column is the bias.
        seen: for each scale, the magnitudes of all activations so far, joined bit by bit.
        older: the actor's targets before the last update, if the next goals are of these.
    """

    shape: FixarShape
    halves: bool = False
    overlap: bool = False
    layers: list[list[dict[str, Integers]]] = field(default_factory=list)
    seen: list[int] = field(default_factory=lambda: [0] * SCALES)
    older: list[Integers] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start with zeros."""
        if not self.layers:
            self.layers = [
                [{part: np.zeros((p.outputs, p.inputs + 1), np.int64) for part in PARTS} for p in places]
                for places in (self.shape.actor, self.shape.critic)
            ]

    def initialise(self, rng: np.random.Generator) -> None:
        """Draw weights uniformly, within 1 / sqrt(inputs); the targets equal them.

        Args:
            rng: source of the random numbers.
        """
        for network in self.layers:
            for layer in network:
                bound = 1 / np.sqrt(layer["weights"].shape[1] - 1)
                drawn = rng.uniform(-bound, bound, layer["weights"].shape)
                layer["weights"] = WEIGHTS.from_float(drawn).raw.astype(np.int64)
                layer["targets"] = layer["weights"].copy()

    def shift(self, scale: int) -> int:
        """Return log2 of the raw activation that the code 1 stands for.

        Args:
            scale: number of the scale.
        """
        return max(LEAST_SHIFT, self.seen[scale].bit_length() + 1 - HALF_BITS)

    def _stored(self, raw: Integers, scale: int) -> Integers:
        """Return activations as they are stored: raw, while their range is recorded, or codes."""
        if self.halves:
            return limited(raw >> self.shift(scale), HALF_BITS)
        self.seen[scale] |= int(np.bitwise_or.reduce(np.where(raw < 0, ~raw, raw).ravel()))
        return raw

    def _with_one(self, stored: Integers, scale: int) -> Integers:
        one = ONE >> self.shift(scale) if self.halves else ONE
        return np.concatenate([stored, np.full((len(stored), 1), one)], 1)

    def _forward(
        self, network: int, stored: Integers, weights: list[Integers] | None = None
    ) -> tuple[Integers, list[Integers], list[NDArray[np.bool_]]]:
        """Return outputs, each layer's stored inputs, and which hidden neurons are positive."""
        places = self.shape.critic if network else self.shape.actor
        inputs, active = [], []
        weights = weights or self._parts(network, "weights")
        for number, (place, matrix) in enumerate(zip(places, weights, strict=True)):
            inputs.append(stored)
            total = self._with_one(stored, place.scale) @ matrix.T
            if self.halves:
                total = total << self.shift(place.scale)
            outputs = limited(rounded(total, WEIGHTS.fraction_bits), WORD_BITS)
            if number < len(places) - 1:
                active.append(outputs > 0)
                stored = self._stored(np.maximum(outputs, 0), places[number + 1].scale)
        return outputs, inputs, active

    def _parts(self, network: int, part: str) -> list[Integers]:
        return [layer[part] for layer in self.layers[network]]

    def _back(self, errors: Integers, layer: dict[str, Integers], active: Any) -> Integers:
        total = errors @ layer["weights"][:, :-1]
        return np.where(active, limited(rounded(total, WEIGHTS.fraction_bits), WORD_BITS), 0)

    def _gradient(self, errors: Integers, stored: Integers, place: LayerPlace) -> Integers:
        raw = self._with_one(stored, place.scale)
        if self.halves:
            raw = raw << self.shift(place.scale)
        gradient = np.zeros((place.outputs, place.inputs + 1), np.int64)
        for first in range(0, len(errors), CORES):
            group = slice(first, first + CORES)
            gradient = limited(
                gradient + rounded(errors[group].T @ raw[group], ACTIVATIONS.fraction_bits), WORD_BITS
            )
        return gradient

    def _gradients(
        self, network: int, errors: Integers, inputs: list[Integers], active: list[Any]
    ) -> list[Integers]:
        places = self.shape.critic if network else self.shape.actor
        found = []
        for number in reversed(range(len(places))):
            found.append(self._gradient(errors, inputs[number], places[number]))
            if number:
                errors = self._back(errors, self.layers[network][number], active[number - 1])
        return found[::-1]

    def _update(self, network: int, gradients: list[Integers], rate: int, settings: UpdateSettings) -> None:
        for layer, gradient in zip(self.layers[network], gradients, strict=True):
            new = adam_golden(gradient, **layer, rate=rate, epsilon=settings.epsilon, tau=settings.tau)
            layer.update(zip(PARTS, new, strict=True))

    def step(self, samples: RawBatch, settings: UpdateSettings) -> Integers:
        """Train critic and actor once, and return the temporal difference errors, (B,), 16 fraction bits.

        Args:
            samples: the batch; B is even, and with 16-bit activations a multiple of 4.
            settings: the host's numbers.
        """
        following = self._stored(samples.next_state, INPUTS)
        if not self.overlap:
            self.older = []
        outputs, _, _ = self._forward(0, following, self.older or self._parts(0, "targets"))
        actions = self._codes(tanh_golden(outputs))
        values, _, _ = self._forward(1, np.concatenate([following, actions], 1), self._parts(1, "targets"))
        goals = limited(
            samples.reward + rounded(samples.discount * values[:, 0], DISCOUNT_FRACTION), WORD_BITS
        )
        state = self._stored(samples.state, INPUTS)
        taken = np.concatenate([state, self._codes(samples.action)], 1)
        values, inputs, active = self._forward(1, taken)
        td_errors = limited(goals - values[:, 0], WORD_BITS)
        errors = limited(rounded(-td_errors * samples.weight, ERROR_SHIFT), WORD_BITS)
        update_critic = partial(
            self._update,
            1,
            self._gradients(1, errors[:, None], inputs, active),
            settings.critic_rate,
            settings,
        )
        if not self.overlap:
            update_critic()

        outputs, inputs, active = self._forward(0, state)
        actions = tanh_golden(outputs)
        _, _, passed = self._forward(1, np.concatenate([state, self._codes(actions)], 1))
        errors = np.full((len(state), 1), settings.actor_error, np.int64)
        for number in (2, 1, 0):
            mask = passed[number - 1] if number else True
            errors = self._back(errors, self.layers[1][number], mask)
        slope = ONE * ONE - actions * actions
        errors = limited(rounded(errors[:, self.shape.state :] * slope, 2 * ACTIVATIONS.fraction_bits), 32)
        if self.overlap:
            update_critic()
            self.older = self._parts(0, "targets")
        self._update(0, self._gradients(0, errors, inputs, active), settings.actor_rate, settings)
        return td_errors

    def _codes(self, actions: Integers) -> Integers:
        """Return actions as the networks read them; their range is not recorded, because it is known."""
        return limited(actions >> self.shift(INPUTS), HALF_BITS) if self.halves else actions

    def act(self, state: Integers) -> Integers:
        """Return the actor's actions without noise, (n, A), 16 fraction bits.

        Args:
            state: (n, S), raw values.
        """
        outputs, _, _ = self._forward(0, self._stored(state, INPUTS))
        return tanh_golden(outputs)


def adam_golden(
    gradients: Integers,
    weights: Integers,
    targets: Integers,
    means: Integers,
    squares: Integers,
    *,
    rate: int,
    epsilon: int,
    tau: int,
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return new weights, targets, means and squares: the golden model of `FixedAdamLane` and what follows it.

    Args:
        gradients, weights, targets, means, squares: raw values, arrays of one shape.
        rate, epsilon: what `corrections` returns.
        tau: the fraction by which targets move, with 16 fraction bits.
    """
    means = means + rounded(((gradients << _LIFT) - means) * MEAN_GAIN, MEAN_GAIN_SHIFT)
    means = limited(means, MEAN_BITS)
    powers = np.minimum(gradients * gradients, (1 << SQUARE_BITS) - 1)
    squares = squares - (squares >> SQUARE_SHIFT) + (powers >> SQUARE_SHIFT)
    roots = np.array([math.isqrt(int(value)) for value in squares.ravel()], np.int64).reshape(squares.shape)
    numerators = np.abs(means) << _NUMERATOR_LIFT
    quotients = np.minimum(numerators // (roots + epsilon), (1 << QUOTIENT_BITS) - 1)
    # The products have up to 56 bits.
    steps = rounded(quotients * rate, _STEP_SHIFT)
    new = limited(weights - np.where(means < 0, -steps, steps), WORD_BITS)
    return new, moved(targets, new, tau), means, squares


def tanh_golden(raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return tanh of raw values with 16 fraction bits, in [-2^16, 2^16]."""
    size = np.minimum(np.abs(raw), LIMIT)
    segment = np.minimum(size >> SEGMENT_BITS, SEGMENTS - 1)
    part = size - (segment << SEGMENT_BITS)
    half = 1 << SEGMENT_BITS - 1
    value = np.array(TABLE)[segment] + ((np.array(RISES)[segment] * part + half) >> SEGMENT_BITS)
    value = np.where(size == LIMIT, ONE, value)
    return np.where(raw < 0, -value, value)


def moved(targets: Integers, weights: Integers, tau: int) -> Integers:
    """Return targets that moved by the fraction tau / 2^16 towards the weights."""
    return limited(targets + rounded((weights - targets) * tau, TAU_FRACTION), WORD_BITS)


def samples_per_s(shape: FixarShape, batch: int, clock_hz: float, *, halves: bool) -> float:
    """Return the samples per second of training steps (FIX: inferences per second, IPS).

    Args:
        clock_hz: the clock frequency in Hz.
    """
    return batch * clock_hz / sum(step_cycles(shape, batch, halves=halves).values())
