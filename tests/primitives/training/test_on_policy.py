"""Iterations of PPO in one call: the samples of the loop in Python, and the gradient steps on them bit for bit."""

import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from placerl.primitives._native import environments as native

from placerl.primitives import learner
from placerl.primitives.algorithms.ddpg import DDPG
from placerl.primitives.algorithms.networks import NetworkDescription
from placerl.primitives.algorithms.ppo import PPO, PpoHyperparameters, Rollout
from placerl.primitives.environments import make_native
from placerl.primitives.learner import Learner
from placerl.primitives.training import on_policy
from placerl.primitives.training.on_policy import OnPolicyIterations, Sources, refusal
from tests.limits import LIMIT_S

SMALL = NetworkDescription(hidden=(16, 16), activation="tanh")
STEPS, COUNT, BATCH = 60, 3, 45
SETTINGS = PpoHyperparameters(
    trajectory_length=STEPS, epochs=2, policy_learning_rate=3e-3, initial_log_std=0.3, gae_lambda=0.9
)
CARTPOLE = PPO((4,), 2, SMALL, SETTINGS, action_kind="discrete")
PENDULUM = PPO((3,), 1, SMALL, SETTINGS, action_kind="continuous")
CONTINUOUS = PPO((4,), 1, SMALL, SETTINGS, action_kind="continuous")
IDS = {CARTPOLE: "CartPole-v1", PENDULUM: "Pendulum-v1", CONTINUOUS: "ContinuousCartPole-v0"}
EPISODE_STEPS = 25
"""So that episodes are cut off in the middle of an iteration, and others end before."""


def learner_of(algorithm: PPO, **options: Any) -> Learner:
    return learner.create(algorithm, backend="native", batch_size=BATCH, seed=3, **options)


def sources(seed: int = 5) -> Sources:
    return Sources(
        np.arange(COUNT, dtype=np.uint64),
        np.random.default_rng(seed),
        np.random.default_rng(seed + 1),
    )


def environments(algorithm: PPO, **options: Any) -> Any:
    asked: dict[str, Any] = {"autoreset": "same_step", "episode_steps": EPISODE_STEPS} | options
    return make_native(IDS[algorithm], COUNT, **asked)


def iterations(algorithm: PPO, trainee: Learner | None = None, seed: int = 5) -> OnPolicyIterations:
    return OnPolicyIterations(trainee or learner_of(algorithm), environments(algorithm), sources(seed))


class Expected:
    """The same rollouts in NumPy, step by step."""

    def __init__(self, algorithm: PPO, seed: int = 5) -> None:
        self.algorithm, self.rng = algorithm, sources(seed).actions
        self.env = environments(algorithm, autoreset="disabled")
        width = self.env.observation_width
        self.seen = np.zeros((COUNT, width), np.float32)
        self.rewards = np.zeros(COUNT)
        self.ended, self.cut = np.zeros((2, COUNT), np.bool_)
        self.buffers = native.Buffers(self.env, self.seen, self.rewards, self.ended, self.cut)
        self.env.reset(np.arange(COUNT, dtype=np.uint64), None, self.seen)
        self.env.reset(None, None, self.seen)
        self.totals, self.steps = np.zeros(COUNT), 0
        self.episodes: list[tuple[int, float]] = []

    def rollout(self, parameters: dict[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        kept: list[tuple[npt.NDArray, ...]] = []
        for _ in range(STEPS):
            before = self.seen.copy()
            actions = self.algorithm.explore(parameters, before, 0, self.rng)
            self.env.step(self.applied(actions), self.buffers)
            row = (self.rewards.astype(np.float32), self.seen, self.ended, self.cut)
            kept.append((before, actions, *(one.copy() for one in row)))
            self.totals += self.rewards
            over = self.ended | self.cut
            for i in np.flatnonzero(over):
                self.episodes.append((self.steps + int(i) + 1, float(self.totals[i])))
                self.totals[i] = 0
            self.steps += COUNT
            if over.any():
                self.env.reset(None, over, self.seen)
        return self.algorithm.prepare(parameters, Rollout(*map(np.stack, zip(*kept, strict=True))))

    def applied(self, actions: npt.NDArray) -> npt.NDArray:
        if self.algorithm.discrete:
            return actions
        low, high = np.array(self.env.action_low), np.array(self.env.action_high)
        return (low + (np.clip(actions, -1, 1) + 1) * ((high - low) / 2)).astype(np.float32)


def learn(
    algorithm: PPO, trainee: Learner, samples: dict[str, npt.NDArray], rng: np.random.Generator
) -> dict:
    """Take an iteration's gradient steps one by one; returns the losses."""
    variant, losses = "full", {}
    for batch in algorithm.minibatches(samples, BATCH, rng):
        found = trainee.step(batch, variant=variant).losses
        losses |= found
        if algorithm.early_stop(found):
            variant = "value"
    return losses


@pytest.mark.parametrize("algorithm", [CARTPOLE, PENDULUM, CONTINUOUS], ids=IDS.get)
def test_samples_are_those_of_the_loop_in_python(algorithm: PPO) -> None:
    trainee = learner_of(algorithm)
    made, expected = iterations(algorithm, trainee), Expected(algorithm)
    for _ in range(2):
        wanted = expected.rollout(trainee.parameters())
        made.run(1)
        found = made.samples()
        assert set(found) == set(wanted)
        for name, column in found.items():
            assert column.shape == wanted[name].shape
            assert column.dtype == wanted[name].dtype
            np.testing.assert_allclose(column, wanted[name], rtol=2e-4, atol=2e-4, err_msg=name)
        if algorithm.discrete:
            np.testing.assert_array_equal(found["action"], wanted["action"])
    assert made.environment_steps == 2 * STEPS * COUNT == expected.steps
    episodes = made.take_episodes()
    assert [step for step, _ in episodes] == [step for step, _ in expected.episodes]
    np.testing.assert_allclose(
        [total for _, total in episodes], [total for _, total in expected.episodes], rtol=1e-4
    )
    assert made.take_episodes() == []
    assert sum(made.spent_s().values()) > 0


def test_episodes_end_in_both_ways() -> None:
    """What the test of the samples rests on: episodes that fail, and episodes that are cut off."""
    made = iterations(CARTPOLE)
    made.run(1)
    returns = {total for _, total in made.take_episodes()}
    assert EPISODE_STEPS in returns
    assert min(returns) < EPISODE_STEPS


@pytest.mark.parametrize("target_kl", [None, 1e-4])
@pytest.mark.parametrize("algorithm", [CARTPOLE, PENDULUM], ids=IDS.get)
def test_gradient_steps_are_those_of_the_learner_bit_for_bit(algorithm: PPO, target_kl: float | None) -> None:
    settings = replace(SETTINGS, target_kl=target_kl)
    stopping = replace(algorithm, hyperparameters=settings)
    trainee, again, rng = learner_of(stopping), learner_of(stopping), sources().minibatches
    made = OnPolicyIterations(trainee, environments(algorithm), sources())
    assert made.losses == {}
    losses: dict[str, float] = {}
    for _ in range(3):
        made.run(1)
        losses |= learn(stopping, again, made.samples(), rng)
    assert trainee.gradient_steps == again.gradient_steps == 3 * made.gradient_steps_each
    assert made.gradient_steps_each == 2 * (STEPS * COUNT // BATCH)
    state, wanted = trainee.state_dict(), again.state_dict()
    for name, value in state.items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)
    assert made.losses == losses
    stopped = int(state["policy_adam/step"]) < int(state["value_adam/step"])
    assert stopped == (target_kl is not None)


def test_iterations_in_one_call_are_those_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    states, episodes = [], []
    for calls, numbers in (((4,), 1 << 20), ((1, 1, 2), 1 << 20), ((4,), 2 * STEPS * COUNT)):
        monkeypatch.setattr(on_policy, "MOST_NUMBERS", numbers)
        trainee = learner_of(PENDULUM)
        made = iterations(PENDULUM, trainee)
        for count in calls:
            made.run(count)
        states.append(trainee.parameters())
        episodes.append(made.take_episodes())
    other = learner_of(PENDULUM)
    iterations(PENDULUM, other, seed=6).run(4)
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name])
        np.testing.assert_array_equal(value, states[2][name])
    assert episodes[0] == episodes[1] == episodes[2]
    assert any((value != other.parameters()[name]).any() for name, value in states[0].items())


def test_threads_change_no_bit() -> None:
    """Minibatches are so large that two threads share operations."""
    size = 4000
    settings = replace(SETTINGS, trajectory_length=-(-size // COUNT))
    algorithm = replace(CARTPOLE, hyperparameters=settings)
    found = []
    for threads in (1, 2):
        trainee: Any = learner.create(algorithm, backend="native", batch_size=size, seed=3, threads=threads)
        executable = trainee.executable
        assert max(executable._executor.parts(executable._programs["full"])) == threads
        OnPolicyIterations(trainee, environments(CARTPOLE), sources()).run(2)
        found.append(trainee.parameters())
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value)


@pytest.mark.parametrize("part", ["policy", "value"])
@pytest.mark.parametrize("algorithm", [CARTPOLE, PENDULUM], ids=IDS.get)
def test_a_number_that_is_not_finite_is_named_and_nothing_is_learnt(algorithm: PPO, part: str) -> None:
    trainee = learner_of(algorithm)
    made = iterations(algorithm, trainee)
    state = trainee.state_dict()
    trainee.load_state_dict(state | {f"{part}/0.weight": np.full_like(state[f"{part}/0.weight"], np.nan)})
    before = trainee.state_dict()
    with pytest.raises(ValueError, match=r"found NaN( or infinity)?; allowed: finite numbers"):
        made.run(1)
    assert trainee.gradient_steps == 0
    for name, value in trainee.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="learner: found backend 'torch'; allowed: 'native'"):
        OnPolicyIterations(
            learner.create(CARTPOLE, backend="torch", batch_size=BATCH), environments(CARTPOLE), sources()
        )
    ddpg = DDPG((4,), 1, SMALL, action_kind="continuous")
    with pytest.raises(TypeError, match="found algorithm 'ddpg': it is not PPO"):
        OnPolicyIterations(
            learner.create(ddpg, backend="native", batch_size=BATCH), environments(CONTINUOUS), sources()
        )
    with pytest.raises(ValueError, match=r"environments: found Pendulum-v1 of \(3,\) observations and 1 con"):
        OnPolicyIterations(learner_of(CARTPOLE), environments(PENDULUM), sources())
    short = replace(CARTPOLE, hyperparameters=replace(SETTINGS, trajectory_length=1))
    with pytest.raises(ValueError, match="batch_size: found 45; allowed: 1 to 3"):
        OnPolicyIterations(learner_of(short), environments(CARTPOLE), sources())
    with pytest.raises(ValueError, match="environments: allowed: those that reset in the same step"):
        OnPolicyIterations(learner_of(CARTPOLE), environments(CARTPOLE, autoreset="next_step"), sources())
    with pytest.raises(ValueError, match="iterations: found 0"):
        iterations(CARTPOLE).run(0)
    shared = PPO((4, 84, 84), 6, NetworkDescription("nature_cnn"), action_kind="discrete")
    assert refusal(shared) == "its policy and value share a network"
    assert refusal(CARTPOLE) == ""


def test_the_native_call_takes_what_fits_alone() -> None:
    made = iterations(CARTPOLE)._native
    samples = STEPS * COUNT
    draws, orders = np.zeros(samples * 2, np.float32), np.zeros(samples * 2, np.int64)
    made.run(1, draws, orders)
    for wrong in ((draws[1:], orders), (draws.astype(np.float64), orders)):
        with pytest.raises(TypeError, match="draws: allowed"):
            made.run(1, *wrong)
    for bad in (orders[1:], orders - 1, orders + samples):
        with pytest.raises(TypeError, match="orders: allowed"):
            made.run(1, draws, bad)


def test_a_call_of_another_thread_meanwhile_is_refused_by_name() -> None:
    drawn = sources()
    made = OnPolicyIterations(learner_of(CARTPOLE), environments(CARTPOLE), drawn)
    steps = 2 * made.gradient_steps_each
    thread = threading.Thread(target=made.run, args=(2,))
    with drawn.minibatches.bit_generator.lock:  # the call cannot end before it is let go
        thread.start()
        while not made._in_call.locked():
            assert thread.is_alive()
        for name, call in (("run", lambda: made.run(1)), ("samples", made.samples)):
            with pytest.raises(RuntimeError) as refused:
                call()
            words = f"OnPolicyIterations.{name}: found another call in progress; allowed: one at a time"
            assert str(refused.value) == words
    thread.join()
    assert made._learner.gradient_steps == steps
    assert made.environment_steps == 2 * STEPS * COUNT


def test_the_learner_is_refused_to_another_thread_meanwhile() -> None:
    made, over = iterations(CARTPOLE), threading.Event()
    refused: list[str] = []

    def attempt(call: Callable[[], Any]) -> None:
        try:
            call()
        except RuntimeError as error:
            refused.append(str(error))

    def run_on() -> None:
        while not over.is_set():
            attempt(lambda: made.run(50))

    thread = threading.Thread(target=run_on)
    thread.start()
    try:
        until = time.monotonic() + LIMIT_S
        while not refused:  # whichever of the two comes second is refused
            attempt(lambda: made._learner.act(np.zeros((2, 4), np.float32)))
            assert time.monotonic() < until
    finally:
        over.set()
        thread.join()
    assert set(refused) == {"learner: found another call in progress; allowed: one at a time"}


def test_a_forked_copy_is_refused() -> None:
    made = iterations(CARTPOLE)
    made.run(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads are lost is what is tried here
        child = os.fork()
    if not child:
        status = 1
        try:
            made.run(1)
        except RuntimeError as error:
            status = 0 if "this OnPolicyIterations belongs to process" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    made.run(1)
