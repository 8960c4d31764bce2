"""Environments on a device have the trajectories of the native ones, which are Gymnasium's."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from placerl.primitives import environments
from placerl.primitives.device import Device, Groups, Part
from placerl.primitives.environments.device_environments import (
    DeviceEnvironments,
    NStep,
    fields_of,
    ids,
    kernel_source,
)
from placerl.primitives.replay import NStepReturns
from placerl.primitives.replay.device import DeviceStorage
from tests.primitives.device.kinds import device_of, every_kind_with_barriers
from tests.primitives.device.nvrtc import compile_cubin

COUNT, CAPACITY, STEPS, LIMIT = 5, 2000, 400, 90
SEEDS = [3, 2**40 + 1, 5, 6, 7]


def actions_of(id: str, step: int) -> NDArray[Any]:
    """Actions that mostly go one way for a while, so that episodes end in each of their ways."""
    rng = np.random.default_rng([step // 12, step % 3])
    env = environments.make_native(id, 1)
    if env.action_count:
        return rng.integers(env.action_count, size=COUNT)
    return rng.uniform(-1, 1, (COUNT, 1)).astype(np.float32)


class OnDevice:
    """The environments, and the transitions that they have written."""

    def __init__(
        self, device: Device, id: str, limit: int | None = LIMIT, n_step: NStep | None = None
    ) -> None:
        self.native = environments.make_native(id, 1)
        width = self.native.observation_width
        self.storage = DeviceStorage(CAPACITY, fields_of(self.native, discount=n_step is not None), device)
        self.stream = stream = device.stream()
        self.arena, at = stream.zeros(4096), 4 * COUNT * width
        self.actions = Part(self.arena, 2048, 8 * COUNT)
        self.environments = DeviceEnvironments(
            id, SEEDS, self.storage, stream, Part(self.arena, 0, at), episode_steps=limit, n_step=n_step
        )

    def step(self, actions: NDArray[Any]) -> None:
        self.stream.upload(self.arena, actions, self.actions.offset_bytes)
        self.environments.launch_step(self.actions)
        self.environments.count_started(1)

    def columns(self) -> dict[str, NDArray[Any]]:
        self.stream.finish()
        self.environments.count_rows()
        return self.storage.held_columns(self.storage.size)


def native_run(id: str, steps: int, limit: int | None) -> tuple[dict[str, NDArray[Any]], list[Any]]:
    """The transitions of the native environments, and the returns of their episodes."""
    envs = environments.make_vec(id, COUNT, autoreset_mode="SameStep", max_episode_steps=limit)
    envs.reset(seed=SEEDS)
    seen, _ = envs.reset()
    listed: dict[str, list[Any]] = {}
    returns = []
    for step in range(steps):
        actions = applied = actions_of(id, step)
        if applied.dtype == np.float32:
            low, high = envs.single_action_space.low, envs.single_action_space.high
            applied = actions if high == 1 else low + (actions + 1) * ((high - low) / np.float32(2))
        following, rewards, terminated, truncated, infos = envs.step(applied)
        last = following.copy()
        for i in np.flatnonzero(terminated | truncated):
            last[i] = infos["final_obs"][i]
            returns.append((step * COUNT + int(i) + 1, float(envs.episode_returns[i])))
        transition = {
            "observation": seen,
            "action": actions,
            "reward": rewards.astype(np.float32),
            "next_observation": last,
            "terminated": terminated,
        }
        for name, column in transition.items():
            listed.setdefault(name, []).append(column)
        seen = following
    return {name: np.concatenate(column) for name, column in listed.items()}, returns


@pytest.mark.parametrize("id", ids())
def test_trajectories_on_the_host_device_are_gymnasiums_bit_by_bit(id: str) -> None:
    one = OnDevice(device_of("host"), id)
    for step in range(STEPS):
        one.step(actions_of(id, step))
    expected, returns = native_run(id, STEPS, LIMIT)
    found = one.columns()
    begun = np.array([step for step, _ in returns]) - 1 + COUNT  # whose observation begins an episode
    for name, column in expected.items():
        if id == "Acrobot-v1" and name == "observation":
            first = np.concatenate([np.arange(COUNT), begun[begun < len(column)]])
            np.testing.assert_allclose(found[name][first], column[first], rtol=0, atol=1e-7)
            found[name][first] = column[first]
        np.testing.assert_array_equal(found[name], column, err_msg=name)
    assert one.environments.take_returns() == returns
    assert one.environments.take_returns() == []
    assert len(returns) >= COUNT


@pytest.mark.parametrize(("id", "n"), [("CartPole-v1", 1), ("CartPole-v1", 4), ("Pendulum-v1", 7)])
def test_n_step_transitions_are_those_of_the_host_bit_by_bit(id: str, n: int) -> None:
    one, host = OnDevice(device_of("host"), id, n_step=NStep(n, 0.97)), NStepReturns(n, 0.97, COUNT)
    for step in range(STEPS):
        one.step(actions_of(id, step))
    steps, returns = native_run(id, STEPS, LIMIT)
    over = np.zeros(STEPS * COUNT, np.bool_)
    over[[step - 1 for step, _ in returns]] = True
    expected = host.add_steps(steps | {"truncated": over & ~steps["terminated"]})
    assert expected is not None
    found = one.columns()
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)
    inserted = int(one.stream.download(one.environments.inserted, (), np.int64))
    rows = one.stream.download(one.environments.indices, COUNT * n, np.int64)
    last = len(expected["reward"]) + np.arange(COUNT * n + 1) - inserted
    assert rows.tolist() == np.minimum(last[:-1], len(expected["reward"])).tolist()


@every_kind_with_barriers
def test_an_infinite_return_says_that_an_episode_is_over(kind: str) -> None:
    device = device_of(kind)
    stream, most = device.stream(), 4
    kernels = device.kernels(kernel_source("CartPole-v1", n_step=True), fuse_products=False)
    ended = stream.uploaded(np.array([np.nan, np.inf, -np.inf, 1.0, np.nan]))
    live = stream.uploaded(np.array([0, 2, 1, 0, 3], np.int64))
    counters, complete, inserted = (stream.zeros(size) for size in (16, 24 * COUNT, 8))
    written = ended, np.int64(1), live, complete, inserted, np.int64(most), np.int64(COUNT)
    stream.launch(kernels["count_transitions"], Groups(1, (256, 1)), counters, *written)
    before, own, begun = stream.download(complete, (COUNT, 3), np.int64).T.tolist()
    assert (before, own, begun) == ([0, 0, 3, 5, 6], [0, 3, 2, 1, 1], [1, 3, 2, 1, 4])
    assert stream.download(inserted, (), np.int64) == 7
    assert stream.download(live, COUNT, np.int64).tolist() == [1, 0, 0, 0, 3]


@pytest.mark.parametrize("id", ids())
def test_opencl_begins_the_same_episodes_and_stays_near(id: str) -> None:
    one, other = (OnDevice(device_of(kind), id) for kind in ("host", "opencl"))
    for step in range(10):
        for both in (one, other):
            both.step(actions_of(id, step))
    expected = one.columns()
    for name, column in other.columns().items():
        np.testing.assert_allclose(column, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


@every_kind_with_barriers
def test_the_ring_of_rows_and_the_ring_of_returns(kind: str) -> None:
    one = OnDevice(device_of(kind), "CartPole-v1", limit=None)
    assert one.environments.room() == 2**16 // COUNT
    for step in range(CAPACITY // COUNT + 3):
        one.step(np.full(COUNT, step % 2))
    assert (one.storage.size, one.storage.cursor) == (CAPACITY, 3 * COUNT)
    assert one.environments.room() == 2**16 // COUNT - CAPACITY // COUNT - 3
    columns = one.columns()
    newest, oldest = columns["observation"][:15].reshape(3, COUNT, 4), columns["next_observation"][-COUNT:]
    ended = np.abs(oldest[:, [0, 2]]).max(1) > 0.2
    np.testing.assert_array_equal(newest[0][~ended], oldest[~ended])
    rows = one.stream.download(one.environments.indices, COUNT, np.int64)
    assert rows.tolist() == list(range(2 * COUNT, 3 * COUNT))


def test_no_limit_of_time_and_gymnasiums_own() -> None:
    one, other = (OnDevice(device_of("host"), "Pendulum-v1", limit) for limit in (0, None))
    for _ in range(201):
        for both in (one, other):
            both.step(np.zeros((COUNT, 1), np.float32))
    assert one.environments.take_returns() == []
    assert [step for step, _ in other.environments.take_returns()] == [996, 997, 998, 999, 1000]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("id", ids())
def test_compiles_for_cuda(architecture: str, id: str) -> None:
    cubin = compile_cubin(kernel_source(id, n_step=True), architecture, fuse_products=False)
    for name in (b"begin_episodes", b"step_environments", b"complete_transitions", b"count_vector_step"):
        assert b".text." + name in cubin


def test_what_does_not_fit_is_refused() -> None:
    device = device_of("host")
    with pytest.raises(ValueError, match="id: found 'Hopper-v5'; allowed: Acrobot-v1"):
        kernel_source("Hopper-v5")
    stream, fields = device.stream(), fields_of(environments.make_native("CartPole-v1", 1))
    seen = Part(stream.zeros(4096), 0, 4096)
    with pytest.raises(ValueError, match="storage: found columns"):
        DeviceEnvironments("Pendulum-v1", SEEDS, DeviceStorage(8, fields, device), stream, seen)
    with pytest.raises(ValueError, match="found 0 items of 4; allowed: none, and room for 5, what 5"):
        DeviceEnvironments("CartPole-v1", SEEDS, DeviceStorage(4, fields, device), stream, seen)
