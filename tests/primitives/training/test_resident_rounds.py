"""Resident rounds are the rounds of the host's loop, and the host neither waits for them nor allocates."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from placerl.primitives import algorithms, environments
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.algorithms.dqn import BONUS
from placerl.primitives.device import Device
from placerl.primitives.environments.device_environments import NStep
from placerl.primitives.learner.acting import exploring_graph
from placerl.primitives.learner.device.started_steps import check
from placerl.primitives.replay import NStepReturns
from placerl.primitives.training.resident_rounds import ResidentActing, ResidentRounds, kernel_source
from tests.primitives.device.kinds import device_of, every_kind_with_barriers
from tests.primitives.device.nvrtc import compile_cubin
from tests.primitives.device.philox import philox
from tests.primitives.device.recording import Counts, RecordingDevice
from tests.primitives.learner.device.resident_parts import (
    CAPACITY,
    KEY,
    Strict,
    learner_on,
    replay_on,
)

SEEDS = [1, 2, 3, 4]
COUNT = len(SEEDS)
CASES: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "name": "dqn",
        "observation_shape": (4,),
        "action_size": 2,
        "hyperparameters": {"target_interval": 3, "exploration_steps": 300, "learning_rate": 1e-2},
    },
    "Pendulum-v1": {"name": "ddpg", "observation_shape": (3,), "action_size": 1},
}
WAYS: dict[str, dict[str, Any]] = {
    "prioritised": {},
    "uniform": {"uniformly": True},
    "n steps": {"n_step": NStep(3, 0.97)},
    "ahead": {"ahead": 2},
}


def algorithm_of(id: str, n_step: NStep | None = None) -> Algorithm:
    return algorithms.create(**CASES[id], network={"hidden": (17, 8)}, n_step=n_step is not None)


def rounds_on(
    device: Device,
    id: str,
    algorithm: Algorithm | None = None,
    capacity: int = CAPACITY,
    *,
    uniformly: bool = False,
    ahead: int = 0,
    n_step: NStep | None = None,
    **acting: Any,
) -> ResidentRounds:
    learner = learner_on(device, algorithm or algorithm_of(id, n_step))
    replay = replay_on(learner, capacity, uniformly=uniformly, ahead=ahead)
    return ResidentRounds(replay, learner, ResidentActing(id, SEEDS, n_step=n_step, **acting))


class HostLoop:
    """The same rounds, by calls of the host: native environments, and kernels of the same device for the rest."""

    def __init__(self, device: Device, id: str, *, n_step: NStep | None = None, **how: Any) -> None:
        self.algorithm = algorithm_of(id, n_step)
        self.strict = Strict(device, self.algorithm, **how)
        self.returns = NStepReturns(n_step.n, n_step.gamma, COUNT) if n_step else None
        self.executable = check(self.strict.learner)
        self.executable.add("explore", exploring_graph(self.algorithm, COUNT))
        self.envs = environments.make_vec(id, COUNT, autoreset_mode="SameStep")
        self.envs.reset(seed=SEEDS)
        self.seen, _ = self.envs.reset()
        self.episodes: list[tuple[int, float]] = []
        self.steps = 0

    def words(self, stream: int, count: int) -> NDArray[np.uint32]:
        return philox([(item, 2**31 + stream, self.steps, 0) for item in range(count)], KEY)

    def vector_step(self, *, explores: bool) -> None:
        if explores:
            inputs = {"batch/observation": self.seen, **self.explored()}
            (actions,) = self.executable.step("explore", inputs).values()
        elif self.algorithm.discrete:
            actions = (self.words(1, COUNT)[:, 0].astype(np.uint64) * np.uint64(2) >> np.uint64(32)).astype(
                np.int64
            )
        else:
            numbers = self.words(1, COUNT)[:, 0].astype(np.float32)
            actions = (numbers * np.float32(2.0**-31) - np.float32(1))[:, None]
        applied = actions if self.algorithm.discrete else actions * np.float32(2)  # Pendulum's bounds
        following, rewards, terminated, truncated, infos = self.envs.step(applied)
        last = following.copy()
        for i in np.flatnonzero(terminated | truncated):
            last[i] = infos["final_obs"][i]
            self.episodes.append((self.steps * COUNT + int(i) + 1, float(self.envs.episode_returns[i])))
        transitions: dict[str, NDArray[Any]] | None = {
            "observation": self.seen,
            "action": actions,
            "reward": rewards.astype(np.float32),
            "next_observation": last,
            "terminated": terminated,
        }
        if self.returns and transitions:
            transitions = self.returns.add(transitions | {"truncated": truncated})
        if transitions:
            self.strict.insert(transitions)
        self.seen, self.steps = following, self.steps + 1

    def explored(self) -> dict[str, NDArray[np.float32]]:
        words = self.words(0, COUNT)
        if not self.algorithm.discrete:
            radius = np.sqrt(-2 * np.log((words[:, 0].astype(np.float64) + 1) / 2**32))
            numbers = radius * np.cos(2 * np.pi * words[:, 1].astype(np.float64) / 2**32)
            return {"draws/noise": numbers.astype(np.float32)[:, None]}
        uniform = ((words[:, 0] >> 5) * 2.0**26 + (words[:, 1] >> 6)) * 2.0**-53
        epsilon = self.algorithm.epsilon(self.steps * COUNT)  # type: ignore[attr-defined]
        bonus = np.zeros((COUNT, 2), np.float32)
        random = np.flatnonzero(uniform < epsilon)
        bonus[random, (words[random, 2] >= 2**31).astype(int)] = BONUS
        return {"draws/bonus": bonus}


@every_kind_with_barriers
@pytest.mark.parametrize("way", WAYS)
def test_a_whole_training_is_that_of_the_host_loop(kind: str, way: str) -> None:
    """Bit by bit on the host device; another device's sine may differ in its last bit."""
    id, device, how = "CartPole-v1", device_of(kind), WAYS[way]
    host, resident = (
        HostLoop(device, id, **how),
        rounds_on(device, id, vector_steps=2, gradient_steps=3, **how),
    )
    for _ in range(20):
        host.vector_step(explores=False)
    resident.fill(20)
    for _ in range(60):
        for _ in range(2):
            host.vector_step(explores=True)
        for _ in range(3):
            host.strict.step({})
    resident.run_rounds(60)
    assert resident.environment_steps == 140 * COUNT > CAPACITY
    assert resident.take_episodes() == host.episodes
    assert len(host.episodes) > 10
    expected, found = (one.state_dict() for one in (host.strict.learner, resident._learner))
    for leaf in expected.keys() - {"generator"}:
        tolerance = 0 if kind == "host" else 1e-3
        np.testing.assert_allclose(found[leaf], expected[leaf], rtol=tolerance, atol=tolerance, err_msg=leaf)
    losses = resident.losses
    assert losses["q"] > 0
    assert resident._learner.gradient_steps == 180


@every_kind_with_barriers
def test_continuous_actions_are_explored_and_applied(kind: str) -> None:
    id, device = "Pendulum-v1", device_of(kind)
    host, resident = HostLoop(device, id), rounds_on(device, id)
    resident.fill(3)
    resident.run_rounds(12)
    for step in range(15):
        host.vector_step(explores=step >= 3)
        if step >= 3:
            host.strict.step({})
    size = 15 * COUNT
    resident.drain()
    found = resident._replay.storage.held_columns(size)
    for name, column in host.strict.replay.storage.columns.items():
        np.testing.assert_allclose(found[name], column[:size], rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.slow
@every_kind_with_barriers
def test_dqn_learns_to_balance_the_pole_without_leaving_the_device(kind: str) -> None:
    """Random actions last for about 22 steps."""
    settings = {"double": True, "target_interval": 10, "tau": 0.1, "exploration_steps": 4000}
    learning = {"hyperparameters": settings | {"learning_rate": 1e-3, "epsilon_final": 0.02}}
    algorithm = algorithms.create(**CASES["CartPole-v1"] | learning, network={"hidden": (64, 64)})
    resident = rounds_on(device_of(kind), "CartPole-v1", algorithm, 20_000, gradient_steps=2)
    resident.fill(250)
    resident.run_rounds(1000)
    resident.take_episodes()
    resident.run_rounds(1000)
    returns = [total for _, total in resident.take_episodes()]
    assert np.mean(returns) > 90


@every_kind_with_barriers
@pytest.mark.parametrize(
    ("id", "way"),
    [*((id, "prioritised") for id in CASES), *(("CartPole-v1", way) for way in ("n steps", "ahead"))],
)
def test_no_round_trip_and_no_allocation_in_a_round(kind: str, id: str, way: str) -> None:
    device = RecordingDevice(device_of(kind))
    resident = rounds_on(device, id, **WAYS[way])
    resident.fill(30)
    rounds = 27 if way == "ahead" else 24  # three graphs, of a multiple of D + 1 gradient steps
    resident.run_rounds(2 * rounds)  # of every pattern of variants, and of the first step
    device.counts.reset()
    resident.run_rounds(rounds)
    assert device.counts == Counts(replays=3)


def test_gradient_steps_alone_leave_the_environments_as_they_are() -> None:
    resident = rounds_on(device_of("host"), "CartPole-v1")
    with pytest.raises(ValueError, match="found no item to draw"):
        resident.run(1)
    resident.fill(8)
    resident.run(5)
    assert resident.environment_steps == 8 * COUNT
    resident.run_rounds(4)
    assert (resident.environment_steps, resident._learner.gradient_steps) == (12 * COUNT, 9)


def test_nothing_is_drawn_before_a_transition_is_complete() -> None:
    resident = rounds_on(device_of("host"), "CartPole-v1", **WAYS["n steps"])
    with pytest.raises(ValueError, match="found no item to draw"):
        resident.run_rounds(1)
    resident.fill(2)
    resident.run_rounds(1)
    resident.drain()
    assert resident._replay.storage.size == COUNT


def test_what_does_not_fit_is_refused() -> None:
    device = device_of("host")
    resident = rounds_on(device, "CartPole-v1")
    with pytest.raises(TypeError, match="found items of the host"):
        resident.insert({})
    with pytest.raises(ValueError, match="gradient_steps: found 0"):
        ResidentActing("CartPole-v1", SEEDS, gradient_steps=0)
    with pytest.raises(ValueError, match="variant: found 'explore 4'; allowed: names other than"):
        ResidentRounds(resident._replay, resident._learner, ResidentActing("CartPole-v1", SEEDS))


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
def test_compiles_for_cuda(architecture: str) -> None:
    cubin = compile_cubin(kernel_source(), architecture)
    for name in (b"draw_bonus", b"draw_choices"):
        assert b".text." + name in cubin
