"""Resident iterations of PPO are those of the host's loop, and the host neither waits for them nor allocates."""

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from placerl.primitives import algorithms, environments
from placerl.primitives.algorithms.ppo import PPO, Rollout, advantages
from placerl.primitives.device import Device
from placerl.primitives.environments import device_environments
from placerl.primitives.learner.device import started_steps
from placerl.primitives.training.on_policy import evaluating_graph, exploring_graph
from placerl.primitives.training.resident_iterations import (
    UNREAD_ITERATIONS,
    ResidentIterations,
    kernel_source,
)
from tests.primitives.device.kinds import device_of, every_kind_with_barriers
from tests.primitives.device.nvrtc import compile_cubin
from tests.primitives.device.philox import philox
from tests.primitives.device.recording import Counts, RecordingDevice
from tests.primitives.learner.device.resident_parts import BATCH_SIZE, KEY, learner_on

SEEDS = [1, 2, 3, 4]
COUNT, STEPS, EPOCHS = len(SEEDS), 13, 2
SAMPLES = STEPS * COUNT
SETTINGS: dict[str, Any] = {
    "trajectory_length": STEPS,
    "epochs": EPOCHS,
    "policy_learning_rate": 3e-3,
    "entropy_coefficient": 0.01,
    "annealing_steps": 80,
}
SHAPES: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"observation_shape": (4,), "action_size": 2, "action_kind": "discrete"},
    "Pendulum-v1": {"observation_shape": (3,), "action_size": 1, "action_kind": "continuous"},
}


def algorithm_of(id: str, **settings: Any) -> PPO:
    made = algorithms.create(
        "ppo", **SHAPES[id], network={"hidden": (17, 8)}, hyperparameters=SETTINGS | settings
    )
    return cast(PPO, made)


def iterations_on(device: Device, id: str, **settings: Any) -> ResidentIterations:
    return ResidentIterations(learner_on(device, algorithm_of(id, **settings)), id, SEEDS, seed=KEY)


def order_of(epoch: int, count: int) -> NDArray[np.int64]:
    """The golden model of `shuffled`: the order of `count` samples in an epoch."""
    keys = philox([(half, 1, epoch, 0) for half in range(2)], KEY).reshape(-1)
    bits = max(2, (count - 1).bit_length())
    low = bits // 2

    def scrambled(x: int, key: int) -> int:
        for shift, factor in ((0, 0x9E3779B1), (15, 0x85EBCA6B), (13, 0xC2B2AE35)):
            x = ((x ^ key) if not shift else x ^ x >> shift) * factor % 2**32
        return x ^ x >> 16

    def moved(item: int) -> int:
        left, right = item >> low, item % 2**low
        for first, second in keys.reshape(4, 2).tolist():
            left ^= scrambled(right, first) % 2 ** (bits - low)
            right ^= scrambled(left, second) % 2**low
        return left << low | right

    order = []
    for item in range(count):
        item = moved(item)
        while item >= count:
            item = moved(item)
        order.append(item)
    return np.array(order)


class HostLoop:
    """The same iterations, by calls of the host: native environments, and kernels of the same device for networks."""

    def __init__(self, device: Device, id: str, **settings: Any) -> None:
        self.algorithm = algorithm_of(id, **settings)
        self.learner = learner_on(device, self.algorithm)
        self.executable = started_steps.check(self.learner)
        self.executable.add("explore", exploring_graph(self.algorithm, COUNT))
        self.executable.add("evaluate", evaluating_graph(self.algorithm, SAMPLES))
        self.normal = device.kernels(started_steps.kernel_source())["draw_numbers"]
        self.envs = environments.make_vec(id, COUNT, autoreset_mode="SameStep")
        self.envs.reset(seed=SEEDS)
        self.seen, _ = self.envs.reset()
        self.episodes: list[tuple[int, float]] = []
        self.steps = self.epochs = self.stopped = 0

    def noise(self) -> dict[str, NDArray[np.float32]]:
        if self.algorithm.discrete:
            words = philox([(item, 0, self.steps, 0) for item in range(COUNT * 2)], KEY)[:, 0]
            gumbel = -np.log(-np.log((words.astype(np.float64) + 0.5) / 2**32))
            return {"draws/gumbel": gumbel.astype(np.float32).reshape(COUNT, 2)}
        stream = self.executable.stream
        step, drawn = stream.uploaded(np.array([self.steps])), stream.zeros(4 * COUNT)
        key = np.uint32(KEY & 0xFFFFFFFF), np.uint32(KEY >> 32)
        written = np.uint32(0), drawn, np.int64(0), np.int64(0), np.int64(COUNT)
        stream.launch(self.normal, COUNT, step, *key, *written)
        return {"draws/noise": stream.download(drawn, (COUNT, 1), np.float32)}

    def rollout(self) -> tuple[Rollout, NDArray[np.float32]]:
        """Take the steps of an iteration; returns them, and the actions' log-probabilities."""
        kept = []
        for _ in range(STEPS):
            explored = self.executable.step("explore", {"batch/observation": self.seen} | self.noise())
            actions = explored["action"]
            applied = (
                actions
                if self.algorithm.discrete
                else np.float32(-2) + (np.clip(actions, -1, 1) + 1) * np.float32(2)
            )
            following, rewards, terminated, truncated, infos = self.envs.step(applied)
            last = following.copy()
            for i in np.flatnonzero(terminated | truncated):
                last[i] = infos["final_obs"][i]
                self.episodes.append((self.steps * COUNT + int(i) + 1, float(self.envs.episode_returns[i])))
            rewards = rewards.astype(np.float32)
            kept.append(
                (self.seen, actions, rewards, last, terminated, truncated, explored["log_probability"])
            )
            self.seen, self.steps = following, self.steps + 1
        *columns, log_probability = map(np.stack, zip(*kept, strict=True))
        return Rollout(*columns), log_probability

    def values(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        flat = observation.reshape(SAMPLES, -1)
        return self.executable.step("evaluate", {"batch/observation": flat})["value"].reshape(STEPS, COUNT)

    def samples(self) -> dict[str, NDArray[Any]]:
        """Collect an iteration's samples; those of `PPO.prepare` are as near as the rounding of networks allows."""
        parameters, (rollout, log_probability) = self.learner.parameters(), self.rollout()
        value, next_value = self.values(rollout.observation), self.values(rollout.next_observation)
        settings = self.algorithm.hyperparameters
        decays = {"gamma": settings.gamma, "gae_lambda": settings.gae_lambda}
        over = rollout.terminated, rollout.truncated
        advantage = advantages(rollout.reward, value, next_value, *over, **decays)
        samples = {
            "observation": rollout.observation.reshape(SAMPLES, -1),
            "action": rollout.action.reshape(SAMPLES, *rollout.action.shape[2:]),
            "log_probability": log_probability.reshape(-1),
            "advantage": advantage.reshape(-1),
            "value_target": (advantage + value).reshape(-1),
        }
        for name, column in self.algorithm.prepare(parameters, rollout).items():
            np.testing.assert_allclose(samples[name], column, rtol=1e-4, atol=1e-4, err_msg=name)
        return samples

    def iteration(self) -> dict[str, NDArray[Any]]:
        samples, variant = self.samples(), "full"
        for _ in range(EPOCHS):
            order, self.epochs = order_of(self.epochs, SAMPLES), self.epochs + 1
            for first in range(0, SAMPLES - BATCH_SIZE + 1, BATCH_SIZE):
                chosen = order[first : first + BATCH_SIZE]
                batch = {name: column[chosen] for name, column in samples.items()}
                losses = self.learner.step(batch, variant=variant).losses
                self.stopped += variant == "value"
                if self.algorithm.early_stop(losses):
                    variant = "value"
        return samples


@every_kind_with_barriers
@pytest.mark.parametrize(
    ("id", "iterations", "settings"),
    [
        ("CartPole-v1", 6, {}),
        ("CartPole-v1", 6, {"target_kl": 2e-5}),
        ("Pendulum-v1", 16, {"maximum_gradient_norm": 0.1}),  # whose episodes are cut off after 200 steps
    ],
)
def test_a_whole_training_is_that_of_the_host_loop(
    kind: str, id: str, iterations: int, settings: dict[str, Any]
) -> None:
    """Bit by bit on the host device; another device's sine and products may differ in their last bits."""
    device, tolerance = device_of(kind), 0 if kind == "host" else 2e-3
    host, resident = HostLoop(device, id, **settings), iterations_on(device, id, **settings)
    for _ in range(iterations):
        wanted = host.iteration()
    resident.run(iterations)
    assert resident.environment_steps == iterations * SAMPLES
    for name, column in resident.samples().items():
        np.testing.assert_allclose(column, wanted[name], rtol=tolerance, atol=tolerance, err_msg=name)
    episodes = resident.take_episodes()
    assert [step for step, _ in episodes] == [step for step, _ in host.episodes]
    assert len(episodes) >= COUNT
    np.testing.assert_allclose(episodes, host.episodes, rtol=tolerance)
    steps = resident._learner.gradient_steps
    assert steps == host.learner.gradient_steps == iterations * resident.gradient_steps_each
    expected, found = (one.state_dict() for one in (host.learner, resident._learner))
    for leaf in expected.keys() - {"generator"}:
        np.testing.assert_allclose(found[leaf], expected[leaf], rtol=tolerance, atol=tolerance, err_msg=leaf)
    assert steps - found["policy_adam/step"] == host.stopped
    assert (0 < host.stopped < steps) == ("target_kl" in settings)
    assert resident.losses.keys() == {"value", "policy", "kl", "entropy"}


@every_kind_with_barriers
@pytest.mark.parametrize("settings", [{}, {"target_kl": 1e-3}], ids=["", "stopping"])
def test_no_round_trip_and_no_allocation_in_an_iteration(kind: str, settings: dict[str, Any]) -> None:
    device = RecordingDevice(device_of(kind))
    resident = iterations_on(device, "CartPole-v1", **settings)
    device.counts.reset()
    resident.run(4)
    assert device.counts == Counts(replays=4)


def test_returns_are_read_before_they_are_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_environments, "_ENDED_RETURNS", 0)
    resident, other = (iterations_on(device_of("host"), "CartPole-v1") for _ in range(2))
    assert resident._environments.ended_steps == UNREAD_ITERATIONS * STEPS
    iterations, episodes = UNREAD_ITERATIONS + 3, []
    for _ in range(iterations):
        other.run(1)
        episodes += other.take_episodes()
    resident.run(iterations)
    assert resident.take_episodes() == episodes


def dealt(device: Device, epoch: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the samples of an epoch as the kernel deals them: their order, and their numbers 0 to 3 `count`."""
    stream, kernel = device.stream(), device.kernels(kernel_source(), fuse_products=False)["deal_samples"]
    order, arena = stream.zeros(8 * count), stream.zeros(12 * count)
    key = np.uint32(KEY & 0xFFFFFFFF), np.uint32(KEY >> 32), np.uint32(1)
    after_one_step, numbers = stream.uploaded(np.array([1])), np.arange(3 * count, dtype=np.float32)
    place = map(np.int64, (1, 1, epoch, 0))  # steps and epochs of an iteration, epoch, first sample
    samples = stream.uploaded(numbers), np.int64(count), order
    written = arena, *map(np.int64, (0, 4 * count, 8 * count, count))
    stream.launch(kernel, count, after_one_step, *key, *place, *samples, *written)
    return stream.download(order, count, np.int64), stream.download(arena, (3, count), np.float32)


@every_kind_with_barriers
@pytest.mark.parametrize("count", [1, 2, 3, 17, 64, 100])
def test_an_epoch_s_order_has_each_sample_once_and_is_the_golden_model_s(kind: str, count: int) -> None:
    device = device_of(kind)
    for epoch in range(3):
        order, numbers = dealt(device, epoch, count)
        assert sorted(order.tolist()) == list(range(count))
        np.testing.assert_array_equal(order, order_of(epoch, count))
        np.testing.assert_array_equal(numbers, np.arange(3 * count).reshape(3, count)[:, order])


def test_a_sample_is_everywhere_with_the_same_probability() -> None:
    """Chi-square of the places of the first sample, and of the differences of two, within 5 sigma.

    They are the golden model's, as above.
    """
    count, epochs = 10, 3000
    orders = np.array([order_of(epoch, count) for epoch in range(epochs)])
    followed = (orders[:, 5] - orders[:, 4]) % count
    for found, cells in ((orders[:, 0], count), (followed - 1, count - 1)):
        expected = epochs / cells
        chi_square = ((np.bincount(found, minlength=cells) - expected) ** 2 / expected).sum()
        assert abs(chi_square - (cells - 1)) < 5 * np.sqrt(2 * (cells - 1))


@pytest.mark.slow
@every_kind_with_barriers
def test_ppo_learns_to_balance_the_pole_without_leaving_the_device(kind: str) -> None:
    """Random actions last for about 22 steps."""
    settings = {"trajectory_length": 32, "epochs": 10, "gamma": 0.98, "gae_lambda": 0.8}
    rates = {"policy_learning_rate": 3e-3, "value_learning_rate": 3e-3, "annealing_steps": None}
    resident = iterations_on(device_of(kind), "CartPole-v1", **settings, **rates)
    resident.run(60)
    resident.take_episodes()
    resident.run(30)
    assert np.mean([total for _, total in resident.take_episodes()]) > 120


def test_what_does_not_fit_is_refused() -> None:
    device = device_of("host")
    learner = learner_on(device, algorithm_of("CartPole-v1"))
    with pytest.raises(
        ValueError, match=r"environments: found Pendulum-v1 of \(3,\) observations and 1 cont"
    ):
        ResidentIterations(learner, "Pendulum-v1", SEEDS)
    with pytest.raises(ValueError, match="batch_size: found 16; allowed: 1 to 13"):
        ResidentIterations(learner, "CartPole-v1", [1])
    with pytest.raises(ValueError, match="iterations: found 0"):
        ResidentIterations(learner, "CartPole-v1", SEEDS).run(0)
    dqn = algorithms.create("dqn", observation_shape=(4,), action_size=2, network={"hidden": (8,)})
    with pytest.raises(TypeError, match="learner: found algorithm 'dqn': it is not PPO"):
        ResidentIterations(learner_on(device, dqn), "CartPole-v1", SEEDS)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
def test_compiles_for_cuda(architecture: str) -> None:
    cubin = compile_cubin(kernel_source(), architecture, fuse_products=False)
    for name in (b"draw_gumbel", b"estimate_advantages", b"deal_samples", b"restore_words"):
        assert b".text." + name in cubin
