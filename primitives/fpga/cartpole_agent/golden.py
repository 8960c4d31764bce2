"""The golden model of the CartPole agent: several agents at once in NumPy, step by step, with the hardware's bits.

All arrays are int64 and have one row per agent. `settings` describes the number formats.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.cartpole_agent import program
from placerl.primitives.fpga.cartpole_agent.program import ScalarInstruction
from placerl.primitives.fpga.cartpole_agent.settings import (
    ACTIONS,
    ANGLE_LIMIT,
    BIAS_ROW,
    DISCOUNT_SHIFT,
    FEATURE_SHIFTS,
    FIRST_PRIORITY,
    GRADIENT_BITS,
    GRADIENT_FRACTION,
    LEAST_PRIORITY,
    MOMENTUM_BITS,
    MOMENTUM_SHIFT,
    ONE,
    POSITION_LIMIT,
    RATE_SHIFT,
    ROWS,
    STATE_BITS,
    STATE_FRACTION,
    STATES,
    WEIGHT_BITS,
    WEIGHT_FRACTION,
    WORD_BITS,
    WORD_FRACTION,
    AgentSettings,
)
from placerl.primitives.fpga.vector.random_generator import State, seeds

Integers = NDArray[np.int64]


def saturated(values: Integers, bits: int) -> Integers:
    """Return integers limited to the range of two's complement with `bits` bits."""
    return np.clip(values, -(1 << bits - 1), (1 << bits - 1) - 1)


def execute(instructions: Sequence[ScalarInstruction], values: Mapping[str, Integers]) -> dict[str, Integers]:
    """Run a program, and return the values of all names after it.

    Args:
        instructions: such as `program.STEP`.
        values: the state and inputs by name, integers in the state's format, of one shape.
    """
    names = {name: np.asarray(program.fixed(value)) for name, value in program.CONSTANTS.items()} | dict(
        values
    )
    half = 1 << STATE_FRACTION - 1
    for target, addend, a, b, negative in instructions:
        product = (names[a] * names[b] + half) >> STATE_FRACTION
        result = names[addend] - product if negative else names[addend] + product
        names[target] = (result + (1 << STATE_BITS - 1)) % (1 << STATE_BITS) - (1 << STATE_BITS - 1)
    return names


def environment_step(state: Integers, action: Integers) -> Integers:
    """Return the state after a step.

    Args:
        state: (N, 4), position, velocity, angle and angular velocity in the state's format.
        action: (N,), 0 to push left and 1 to push right.
    """
    push = program.fixed(program.PUSH)
    names = dict(zip(program.STATE, state.T, strict=True)) | {"push": np.where(action == 1, push, -push)}
    after = execute(program.STEP, names)
    return np.stack([after[name] for name in program.STATE], 1)


def terminated(state: Integers) -> NDArray[np.bool_]:
    """Return whether states (N, 4) are beyond the limits of the cart's position or of the pole's angle."""
    limits = (program.fixed(POSITION_LIMIT), program.fixed(ANGLE_LIMIT))
    return (np.abs(state[:, 0]) > limits[0]) | (np.abs(state[:, 2]) > limits[1])


def features(state: Integers) -> Integers:
    """Return the network's inputs (N, 4) for states (N, 4)."""
    return saturated(state >> np.array(FEATURE_SHIFTS), WORD_BITS)


class Random:
    """A generator of 32-bit words for each agent, `vector.random_generator.Xorshift`."""

    def __init__(self, states: Sequence[State]) -> None:
        self._state = np.array(states, np.int64).T  # x, y, z, w

    def word(self, where: NDArray[np.bool_] | None = None) -> Integers:
        """Return the next word of each agent, (N,). Agents that are not in `where` do not advance."""
        x, w = self._state[0], self._state[3]
        t = (x ^ x << 11) & 0xFFFFFFFF
        word = w ^ w >> 19 ^ t ^ t >> 8
        after = np.concatenate([self._state[1:], word[None]])
        self._state = after if where is None else np.where(where, after, self._state)
        return word


class GoldenAgents:
    """Agents that learn CartPole, each with the bits of one `agent.CartPoleAgent`.

    Args:
        generator_seeds: the seed of each agent's random numbers.

    Attributes:
        state: (N, 4) environment states.
        weights, target: (N, 7, hidden) weights of the network and of the target network.
        learning: (N,) bool, false when the agent has solved the task.
        steps: environment steps so far.
        episodes, last_return: (N,) number of finished episodes, and the steps of the last one.
    """

    def __init__(self, generator_seeds: Sequence[int], settings: AgentSettings = AgentSettings()) -> None:  # noqa: B008
        self.settings = settings
        count, hidden = len(generator_seeds), settings.hidden
        self._random = Random([seeds(seed, 1)[0] for seed in generator_seeds])
        drawn = np.stack([self._random.word() for _ in range(ROWS * hidden)], 1).reshape(count, ROWS, hidden)
        signed = np.where(drawn >> 31, drawn - (1 << 32), drawn)
        self.weights = signed >> (32 - WEIGHT_FRACTION)  # in [-1/2, 1/2), and in [-1/4, 1/4) for the values
        self.weights[:, -ACTIONS:] >>= 1
        self.target = self.weights.copy()
        self._momentum = np.zeros_like(self.weights)
        self._transitions = np.zeros((count, settings.capacity, 2 * STATES + 2), np.int64)
        self._priorities = np.zeros((count, settings.capacity), np.int64)
        self._explore = 1 << 16
        self._agents = np.arange(count)
        self.learning = np.ones(count, bool)
        self.steps = self._gradient_steps = 0
        self._length = np.zeros(count, np.int64)
        self._streak = np.zeros(count, np.int64)
        self.episodes = np.zeros(count, np.int64)
        self.last_return = np.zeros(count, np.int64)
        self.state = np.zeros((count, STATES), np.int64)
        self._reset(np.ones(count, bool))

    def step(self) -> dict[str, Integers]:
        """Do one environment step and one gradient step with every agent.

        Returns:
            What the hardware reports about the step: `values` (N, 2) of the actions, `action` (N,), `state` (N, 4)
            after the action, and `terminated` and `truncated` (N,).
        """
        before = features(self.state)
        values = self._values(before[:, None], self.weights)[1][:, 0]
        word = self._random.word()
        explores = self.learning & ((word & 0xFFFF) < self._explore)
        action = np.where(explores, word >> 31, (values[:, 1] > values[:, 0]).astype(np.int64))
        state = self.state = environment_step(self.state, action)
        fell = terminated(state)
        transition = np.column_stack([before, features(state), action, fell])
        place = self.steps % self.settings.capacity
        keeps = self.learning
        self._transitions[keeps, place] = transition[keeps]
        self._priorities[keeps, place] = FIRST_PRIORITY
        self.steps += 1
        if self.steps >= self.settings.warm_steps and keeps.any():
            self._learn()
        self._length += 1
        truncated = ~fell & (self._length == self.settings.episode_steps)
        ends = fell | truncated
        self.last_return = np.where(ends, self._length, self.last_return)
        self.episodes = self.episodes + ends
        self._length = np.where(ends, 0, self._length)
        self._streak = np.where(fell, 0, self._streak + truncated)
        self.learning = keeps & (self._streak < self.settings.solved_episodes)
        self._reset(ends)
        if self._explore > self.settings.explore_last:
            self._explore -= self.settings.explore_decay
        flags = {"terminated": fell.astype(np.int64), "truncated": truncated.astype(np.int64)}
        return {"values": values, "action": action, "state": state, **flags}

    def _reset(self, where: NDArray[np.bool_]) -> None:
        if not where.any():
            return
        drawn = []
        for instruction in program.RESET:
            values = {"random": self._random.word(where) >> (32 - STATE_FRACTION)}
            drawn.append(execute([instruction], values)[instruction.target])
        self.state = np.where(where[:, None], np.stack(drawn, 1), self.state)

    def _values(self, inputs: Integers, weights: Integers) -> tuple[Integers, Integers]:
        """Return hidden activations (N, B, hidden) and the actions' values (N, B, 2) for inputs (N, B, 4)."""
        used = weights >> (WEIGHT_FRACTION - WORD_FRACTION)
        sums = inputs @ used[:, :BIAS_ROW] + used[:, BIAS_ROW, None] * ONE
        hidden = np.clip(sums >> WORD_FRACTION, 0, (1 << WORD_BITS - 1) - 1)
        hidden[..., 0] = ONE
        values = hidden @ used[:, -ACTIONS:].transpose(0, 2, 1)
        return hidden, saturated(values >> WORD_FRACTION, WORD_BITS)

    def _learn(self) -> None:
        """Do a gradient step of the agents that are learning, with a batch from the sum tree."""
        where = self.learning
        leaves = self._sampled(where)
        batch = self._transitions[self._agents[:, None], leaves]
        x, after, action, fell = batch[..., :4], batch[..., 4:8], batch[..., 8], batch[..., 9]
        best = np.clip(self._values(after, self.target)[1].max(-1), -ONE, 0)
        wanted = np.where(fell == 1, -ONE, best - (best >> DISCOUNT_SHIFT))
        hidden, values = self._values(x, self.weights)
        value = np.where(action == 1, values[..., 1], values[..., 0])
        error = np.clip(value - wanted, -ONE, ONE - 1)

        used = self.weights >> (WEIGHT_FRACTION - WORD_FRACTION)
        of_action = np.where(action[..., None] == 1, used[:, None, -1], used[:, None, -2])
        delta = saturated(error[..., None] * of_action >> WORD_FRACTION, WORD_BITS)
        delta = np.where(hidden > 0, delta, 0)
        delta[..., 0] = 0
        sums = np.zeros_like(self.weights)
        inputs = np.concatenate([x, np.full((*x.shape[:2], 1), ONE)], -1)
        sums[:, : BIAS_ROW + 1] = inputs.transpose(0, 2, 1) @ delta
        chosen = np.stack([np.where(action == each, error, 0) for each in range(ACTIONS)], 1)
        sums[:, -ACTIONS:] = chosen @ hidden

        gradient = saturated(sums >> (2 * WORD_FRACTION - GRADIENT_FRACTION), GRADIENT_BITS)
        momentum = saturated(gradient + self._momentum - (self._momentum >> MOMENTUM_SHIFT), MOMENTUM_BITS)
        weights = saturated(self.weights - (momentum >> RATE_SHIFT), WEIGHT_BITS)
        learns = where[:, None, None]
        self._momentum = np.where(learns, momentum, self._momentum)
        self.weights = np.where(learns, weights, self.weights)
        self._gradient_steps += 1
        if self._gradient_steps % self.settings.target_period == 0:
            self.target = np.where(learns, weights, self.target)
        rows = self._agents[where, None]
        self._priorities[rows, leaves[where]] = np.abs(error[where]) + LEAST_PRIORITY

    def _sampled(self, where: NDArray[np.bool_]) -> Integers:
        """Return leaves (N, batch), each drawn with a probability proportional to its priority."""
        sums = self._priorities.cumsum(1)
        total = sums[:, -1]
        words = np.stack([self._random.word(where) for _ in range(self.settings.batch)])
        drawn = {"random": words >> (32 - STATE_FRACTION), "total": total}
        prefixes = np.minimum(execute(program.SAMPLE, drawn)["t"], total - 1).T
        return np.stack(
            [np.searchsorted(row, some, side="right") for row, some in zip(sums, prefixes, strict=True)]
        )
