"""The golden model of MAP's accelerator: the same gradient steps in NumPy, equal bit by bit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from placerl.primitives.fpga.floating_point import golden
from placerl.primitives.fpga.floating_point.golden import Array
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, FRACTION
from placerl.primitives.fpga.learner_pipeline.update_unit import target_program
from placerl.primitives.fpga.map_accelerator.programs import (
    corrections_program,
    priority_program,
    weight_program,
)
from placerl.primitives.fpga.map_accelerator.settings import PRIORITY, AcceleratorSettings
from placerl.primitives.fpga.vector.random_generator import WORD_BITS, seeds
from tests.primitives.fpga.learner_pipeline.golden import (
    TdLoss,
    fixed,
    forward,
    gradients,
    input_errors,
    tanh,
    tanh_back,
    td_loss,
)
from tests.primitives.fpga.vector.golden import xorshift_golden


@dataclass(frozen=True)
class StepHyperparameters:
    """The hyper-parameters of a gradient step, as the accelerator's registers have them.

    Attributes:
        learning_rate: Adam's step size; of DDPG that of the critic.
        gamma: discount.
        tau: fraction by which the target network moves.
        target_interval: gradient steps between these moves.
        alpha, beta, epsilon: of the priorities and importance weights.
        huber: Huber's loss instead of the squared one.
        actor_learning_rate: Adam's step size for DDPG's actor.
    """

    learning_rate: float = 1e-3
    gamma: float = 0.99
    tau: float = 1.0
    target_interval: int = 1
    alpha: float = 0.6
    beta: float = 0.4
    epsilon: float = 1e-6
    huber: bool = True
    actor_learning_rate: float = 1e-4


@dataclass
class NetworkLayer:
    """What the accelerator keeps of a layer, (outputs, inputs + 1) float32 each, biases in the last column.

    Attributes:
        weight, mean, square, target: weights, Adam's moments, and the target network's weights.
    """

    weight: Array
    mean: Array
    square: Array
    target: Array


@dataclass(frozen=True)
class GoldenStep:
    """What happened in a gradient step.

    Attributes:
        leaves: (B,) int64, the sampled transitions, lane by lane.
        weights: (B,) int32, their importance weights in `FRACTION`.
        tds: (B,) int32, their TD errors in `FORMAT`.
        priorities: (B,) int64, their new priorities in `PRIORITY`.
    """

    leaves: Array
    weights: Array
    tds: Array
    priorities: Array


class GoldenAccelerator:
    """A golden model of `MapAccelerator`.

    The order in which samples leave the tree's banks does not matter: sums are exact, and a transition that is sampled
    twice has the same TD error both times.

    Args:
        settings: sizes.
        weights: the first weights of each layer of `settings.networks`, (outputs, inputs + 1) float32.
    """

    def __init__(self, settings: AcceleratorSettings, weights: list[Array]):
        self.settings = settings
        self.layers = [NetworkLayer(w, np.zeros_like(w), np.zeros_like(w), w) for w in weights]
        self.priorities = np.zeros(settings.capacity, np.int64)
        states = (settings.capacity, settings.states)
        self.transitions: dict[str, Array] = {
            "state": np.zeros(states, np.int64),
            "next_state": np.zeros(states, np.int64),
            **{name: np.zeros(settings.capacity, np.int64) for name in ("action", "reward", "terminated")},
        }
        if settings.actor:
            self.transitions["action"] = np.zeros((settings.capacity, settings.actions), np.int64)
        self._drawn = np.zeros(settings.banks, np.int64)
        self._inserted = 0
        self._since_target = 0
        self._powers: list[Array] = [np.zeros((), np.float32)] * 2

    def insert(self, transitions: Mapping[str, Array], priorities: Array) -> None:
        """Store transitions, raw values by the names of `transition`'s fields, with their priorities in `PRIORITY`."""
        settings = self.settings
        for number, priority in enumerate(priorities):
            turn = self._inserted % settings.capacity
            bank, leaf = turn % settings.banks, turn // settings.banks
            place = bank * (settings.capacity // settings.banks) + leaf
            self.priorities[place] = priority
            for name, kept in self.transitions.items():
                kept[place] = transitions[name][number]
            self._inserted += 1

    def step(self, batch_size: int, hyper: StepHyperparameters) -> GoldenStep:
        """Do a gradient step on a batch of `batch_size` transitions."""
        leaves = self._sample(batch_size)
        priorities = self.priorities[leaves]
        smallest = np.full_like(priorities, priorities.min())
        beta = np.float32(hyper.beta)
        (weight,) = weight_program().golden([priorities, smallest, np.full(batch_size, beta)])
        weights = FRACTION.from_float(weight).raw

        batch = {name: kept[leaves] for name, kept in self.transitions.items()}
        gamma = int(FRACTION.from_float(hyper.gamma).raw)
        terms = {
            "action": np.zeros_like(leaves) if self.settings.actor else batch["action"],
            "reward": batch["reward"],
            "discount": np.where(batch["terminated"] & 1, 0, gamma),
            "weight": weights,
        }
        rate_of = [np.asarray(each, np.float32) for each in (hyper.learning_rate, hyper.actor_learning_rate)]
        before = self._powers
        *self._powers, rate, root = corrections_program().golden([*before, rate_of[0]])
        moves = self._since_target + 1 >= hyper.target_interval
        self._since_target = 0 if moves else self._since_target + 1
        scalars = [root, *(np.asarray(each, np.float32) for each in (1 / batch_size, hyper.tau))]
        actor, critic = self.layers[: len(self.settings.actor)], self.layers[len(self.settings.actor) :]
        if actor:
            loss, sums = self._critic_pass(batch, terms, hyper.huber)
        else:
            loss, sums = self._q_pass(batch, terms, hyper.huber)
        self._update(critic, sums, [rate, *scalars], moves, hyper.tau == 1)
        if actor:
            *_, rate, _ = corrections_program().golden([*before, rate_of[1]])
            self._update(actor, self._actor_pass(batch), [rate, *scalars], moves, hyper.tau == 1)

        td = golden.from_fixed(loss.tds.astype(np.int64), FORMAT.fraction_bits)
        scalars = [np.full(batch_size, value, np.float32) for value in (hyper.epsilon, hyper.alpha)]
        (found,) = priority_program().golden([td, *scalars])
        new = np.maximum(PRIORITY.from_float(found).raw.astype(np.int64), 1)
        self.priorities[leaves] = new
        return GoldenStep(leaves, weights, loss.tds, new)

    def _sample(self, batch_size: int) -> Array:
        """Return the smallest i with P[0] + ... + P[i] > prefix, for prefixes drawn by the generator of each lane."""
        banks = self.settings.banks
        sums = np.cumsum(self.priorities)
        total = int(sums[-1])
        prefixes = []
        for lane, state in enumerate(seeds(self.settings.seed, banks)):
            count = (batch_size + banks - 1 - lane) // banks
            words = xorshift_golden(state, int(self._drawn[lane]) + count)[int(self._drawn[lane]) :]
            prefixes += [word * total >> WORD_BITS for word in words]
            self._drawn[lane] += count
        return np.searchsorted(sums, np.asarray(prefixes), side="right")

    def _q_pass(
        self, batch: Mapping[str, Array], terms: dict[str, Array], huber: bool
    ) -> tuple[TdLoss, list[Array]]:
        """Return the loss and the sums of gradients of DQN's network."""
        online = [fixed(layer.weight) for layer in self.layers]
        activations = forward(online, batch["state"])
        targets = forward([fixed(layer.target) for layer in self.layers], batch["next_state"])[-1]
        greedy = forward(online, batch["next_state"])[-1] if self.settings.double else None
        loss = td_loss(activations[-1], targets, terms, greedy=greedy, huber=huber)
        return loss, gradients(online, activations, loss.errors)

    def _critic_pass(
        self, batch: Mapping[str, Array], terms: dict[str, Array], huber: bool
    ) -> tuple[TdLoss, list[Array]]:
        """Return the loss and the sums of gradients of DDPG's critic."""
        count = len(self.settings.actor)
        online = [fixed(layer.weight) for layer in self.layers[count:]]
        target = [fixed(layer.target) for layer in self.layers]
        proposed = tanh(forward(target[:count], batch["next_state"])[-1])
        following = np.concatenate([batch["next_state"], proposed], axis=1)
        targets = forward(target[count:], following)[-1]
        activations = forward(online, np.concatenate([batch["state"], batch["action"]], axis=1))
        loss = td_loss(activations[-1], targets, terms, huber=huber)
        return loss, gradients(online, activations, loss.errors)

    def _actor_pass(self, batch: Mapping[str, Array]) -> list[Array]:
        """Return the sums of gradients of DDPG's actor, through the new critic."""
        count = len(self.settings.actor)
        online = [fixed(layer.weight) for layer in self.layers]
        policy = forward(online[:count], batch["state"])
        action = tanh(policy[-1])
        values = forward(online[count:], np.concatenate([batch["state"], action], axis=1))
        error = np.full_like(values[-1], -1 << FORMAT.fraction_bits)
        pair = input_errors(online[count:], values, error)
        return gradients(online[:count], policy, tanh_back(pair[:, self.settings.states :], action))

    @staticmethod
    def _update(
        layers: list[NetworkLayer], sums: list[Array], scalars: list[Array], moves: bool, copy: bool
    ) -> None:
        """Do Adam's step of a network's layers, and the target network's."""
        for layer, exact in zip(layers, sums, strict=True):
            summed = golden.from_fixed(exact, 2 * FORMAT.fraction_bits)
            inputs = [summed, layer.weight, layer.mean, layer.square, layer.target]
            inputs += [np.broadcast_to(value, summed.shape) for value in scalars]
            new = target_program().golden([*inputs, np.asarray(copy)])
            layer.weight, layer.mean, layer.square = new[:3]
            layer.target = new[3] if moves else layer.target
