"""Creates the cases of `placerl bench environments`: for each implementation of an environment the function to time.

A case also creates the environments, checks them and draws the actions. A call of it takes `steps` steps of a vector
of `count` environments. If EnvPool is not installed, `envpool_reason` says so, and there is no case for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from placerl.primitives._native import environments as native

from placerl.harness.compare import registry
from placerl.harness.compare.protocol import Worker
from placerl.harness.environments import continuous_cartpole
from placerl.harness.measure.timed_case import Case
from placerl.primitives.environments import make_native, mujoco_simulations

PUFFERLIB, PUFFERLIB_IDS = "pufferlib", ("CartPole-v1",)
"""Its folder in `baselines/`, and Gymnasium's ids of the environments that are built there."""
ENVIRONMENT_WORKER = registry.BASELINES / "environment_worker.py"
WORKER_LIMIT_S = 60.0
RECORDED_STEPS = 128
"""Vector steps of MuJoCo environments that are recorded; the native environments and mj_step alone then repeat them."""


@dataclass(frozen=True)
class Stepping:
    """The environments that a timed call steps, and for how many steps.

    Attributes:
        steps: steps that each environment takes in a call.
    """

    id: str
    count: int
    steps: int

    @property
    def environment_steps(self) -> int:
        """Return the number of environment steps in a call, `count` times `steps`."""
        return self.count * self.steps


SINES = {
    "CartPole-v1": (2, 0.2),
    "ContinuousCartPole-v0": (2, 0.2),
    "Pendulum-v1": (2, 2 * np.pi),
    "MountainCar-v0": (1, 3.6),
    "MountainCarContinuous-v0": (1, 3.6),
    "Acrobot-v1": (19, 1.5 * np.pi),
}
"""Sines and cosines in double precision of a step, and the largest of their angles in radians, by Gymnasium's id."""


@dataclass
class NativeState:
    """A vector of native environments, and the arrays that it writes its results to.

    Attributes:
        env: the vector of N environments.
        observations: (N, width) float32 or float64.
        rewards: (N,) float64.
        terminated, truncated: (N,) bool.
        buffers: all these arrays, in the form that the vector's `step` takes them.
    """

    env: Any
    observations: npt.NDArray
    rewards: npt.NDArray[np.float64]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    buffers: Any
    at: int = 0

    @classmethod
    def of(cls, stepping: Stepping) -> "NativeState":
        """Create the vector of environments that `stepping` names, and reset them with the seeds 0, 1, ..."""
        env = make_native(stepping.id, stepping.count, autoreset="same_step")
        observations = np.zeros(
            (stepping.count, env.observation_width), np.float64 if env.float64 else np.float32
        )
        rewards = np.zeros(stepping.count)
        terminated, truncated = np.zeros((2, stepping.count), np.bool_)
        buffers = native.Buffers(env, observations, rewards, terminated, truncated)
        state = cls(env, observations, rewards, terminated, truncated, buffers)
        state.reset()
        return state

    def reset(self) -> None:
        """Reset all environments with the same seeds as at the beginning."""
        self.env.reset(np.arange(self.env.count, dtype=np.uint64), None, self.observations)
        self.at = 0

    def draw(self, rng: np.random.Generator, steps: int) -> npt.NDArray:
        """Draw random actions for all N environments: (steps, N) int64 if discrete, else (steps, N, width) float32."""
        env = self.env
        if env.action_count:
            return rng.integers(0, env.action_count, (steps, env.count))
        low, high = np.array(env.action_low), np.array(env.action_high)
        return rng.uniform(low, high, (steps, env.count, env.action_width)).astype(np.float32)

    def step(self, actions: npt.NDArray) -> None:
        """Step all environments once for each element of `actions` along the first axis.

        Args:
            actions: (steps, N) int64 or (steps, N, width) float32, as `draw` returns them.
        """
        for one in actions:
            self.env.step(one, self.buffers)


def check_against_gymnasium(stepping: Stepping, steps: int = 400) -> None:
    """Check that native environments give exactly Gymnasium's observations, rewards and ends of episodes.

    Args:
        steps: environment steps to compare, half of them in each of two environments.
    """
    assert continuous_cartpole.ID
    state = NativeState.of(Stepping(stepping.id, 2, 1))
    environments = [gymnasium.make(stepping.id, disable_env_checker=True) for _ in range(2)]
    for seed, env in enumerate(environments):
        assert np.array_equal(env.reset(seed=seed)[0], state.observations[seed])
    for actions in state.draw(np.random.default_rng(0), steps // 2):
        state.env.step(actions, state.buffers)
        for i, env in enumerate(environments):
            observation, reward, terminated, truncated, _ = env.step(actions[i])
            if terminated or truncated:
                observation, _ = env.reset()
            assert np.array_equal(observation, state.observations[i]), "observations differ from Gymnasium's"
            outcome = (state.rewards[i], state.terminated[i], state.truncated[i])
            assert outcome == (reward, terminated, truncated), "rewards or ends differ from Gymnasium's"


def native_case(stepping: Stepping) -> Case[NativeState]:
    """Return the case that steps a vector of native environments with random actions.

    Its check compares the environments with Gymnasium's, bit for bit.
    """
    return Case(
        name="native",
        setup=lambda: NativeState.of(stepping),
        check=lambda _: check_against_gymnasium(stepping),
        inputs=lambda state, rng: state.draw(rng, stepping.steps),
        call=lambda state, actions: state.step(actions),
    )


def sines_case(stepping: Stepping) -> Case[tuple[int, float]]:
    """Return the case that only computes as many sines and cosines as the environment steps of a call need.

    It uses the same C++ function as the native environments, so it shows how much of their time is spent on sines.
    """
    each, largest = SINES[stepping.id]
    count = stepping.environment_steps * each

    def check(_: object) -> None:
        angles = np.random.default_rng(0).uniform(-largest, largest, 1000)
        expected = np.sin(angles[::2]).sum() + np.cos(angles[1::2]).sum()
        assert np.isclose(native.sum_of_sines(angles), expected, rtol=1e-12), "the sum differs from NumPy's"

    return Case(
        name="sines alone",
        setup=lambda: (count, largest),
        check=check,
        inputs=lambda state, rng: rng.uniform(-state[1], state[1], state[0]),
        call=lambda _, angles: native.sum_of_sines(angles),
    )


def gymnasium_case(stepping: Stepping) -> Case[Any]:
    """Return the case that steps one environment of Gymnasium in a Python loop, and resets it when an episode ends."""

    def call(env: Any, actions: list[Any]) -> None:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    def setup() -> Any:
        env = gymnasium.make(stepping.id, disable_env_checker=True)
        env.reset(seed=0)
        return env

    # Few steps: one takes longer than a thousand native ones.
    steps = gymnasium_steps(stepping)
    return Case(
        name="Gymnasium",
        setup=setup,
        check=lambda _: None,
        inputs=lambda env, rng: _gymnasium_actions(env, rng, steps),
        call=call,
        close=lambda env: env.close(),
    )


def gymnasium_steps(stepping: Stepping) -> int:
    """Return the environment steps in a call of `gymnasium_case`: at most 64, because each step takes long."""
    return min(64, stepping.environment_steps)


def _gymnasium_actions(env: Any, rng: np.random.Generator, steps: int) -> list[Any]:
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return list(rng.integers(0, space.n, steps))
    return list(rng.uniform(space.low, space.high, (steps, *space.shape)).astype(np.float32))


def envpool_reason(id: str) -> str:
    """Return why EnvPool cannot step an environment on this machine; empty if it can."""
    if find_spec("envpool") is None:
        return "EnvPool is not installed (extra `envpool`)"
    import envpool

    return "" if id in envpool.list_all_envs() else f"EnvPool has no {id}"


def envpool_case(stepping: Stepping) -> Case[Any]:
    """Return the case that steps a vector of EnvPool's environments with one thread.

    Its check compares only the shapes of the observations, because EnvPool's trajectories are not Gymnasium's.
    """

    def setup() -> Any:
        import envpool

        pool = envpool.make(stepping.id, env_type="gymnasium", num_envs=stepping.count, num_threads=1, seed=0)
        pool.reset()
        return pool

    def check(pool: Any) -> None:
        actions = inputs(pool, np.random.default_rng(0))[0]
        observations, rewards, *_ = pool.step(actions)
        expected = NativeState.of(Stepping(stepping.id, stepping.count, 1))
        assert observations.shape == expected.observations.shape, "EnvPool's observations have another shape"
        assert np.isfinite(rewards).all()

    def inputs(pool: Any, rng: np.random.Generator) -> npt.NDArray:
        space = pool.action_space
        shape = (stepping.steps, stepping.count)
        if isinstance(space, gymnasium.spaces.Discrete):
            return rng.integers(0, space.n, shape).astype(np.int32)
        return rng.uniform(space.low, space.high, (*shape, *space.shape)).astype(space.dtype)

    def call(pool: Any, actions: npt.NDArray) -> None:
        for one in actions:
            pool.step(one)

    return Case("EnvPool", setup, check, inputs, call, close=lambda pool: pool.close())


def pufferlib_reason(id: str) -> str:
    """Return why PufferLib's environments in C cannot be stepped on this machine; empty if they can."""
    if id not in PUFFERLIB_IDS:
        return (
            f"PufferLib's {id} is not built: {', '.join(PUFFERLIB_IDS)} is (baselines/pufferlib/install.py)"
        )
    if not registry.baseline_python(PUFFERLIB).exists():
        return "it needs its environment, which --build makes"
    return ""


def _end(worker: Worker) -> None:
    worker.close()


def pufferlib_case(stepping: Stepping) -> Case[Worker]:
    """Return the case that steps PufferLib's environments in C, in a process with a virtual environment of its own.

    That process reads the clock itself. Only the shapes of the results are checked, and that all numbers are finite,
    because PufferLib's environments have rules of their own and compute in float32.
    """
    draws = np.random.default_rng(0)

    def setup() -> Worker:
        folder = registry.BASELINES / PUFFERLIB
        script = [str(ENVIRONMENT_WORKER), str(folder / "environment.py")]
        worker = Worker([str(registry.baseline_python(PUFFERLIB)), *script])
        worker.ask_json({"id": stepping.id, "count": stepping.count}, WORKER_LIMIT_S)
        return worker

    def block(worker: Worker, calls: int) -> float:
        job = {"calls": calls * stepping.steps, "seed": int(draws.integers(2**32))}
        return float(worker.ask_json(job, WORKER_LIMIT_S)["wall_s"])

    return Case(
        name="PufferLib",
        setup=setup,
        check=lambda _: None,  # by the worker, when it creates them
        inputs=lambda worker, rng: None,
        call=lambda worker, _: None,
        close=_end,
        block=block,
    )


@dataclass
class Recording:
    """A run of N native MuJoCo environments over T steps, with all that is needed to repeat it exactly.

    The environments are first reset with the seeds 0, 1, ...

    Attributes:
        actions: (T, N, controls) float32.
        over: (T, N) bool: whether an episode ended at this step, so that the next one began.
        first: (N, positions + velocities) float64, the states in which the run begins.
        starts: (episodes, positions + velocities) float64, the states in which the later episodes begin, in the order
            of the true elements of `over`.
        last: (N, positions + velocities) float64, the states in which the run ends.
    """

    actions: npt.NDArray[np.float32]
    over: npt.NDArray[np.bool_]
    first: npt.NDArray[np.float64]
    starts: npt.NDArray[np.float64]
    last: npt.NDArray[np.float64]

    @classmethod
    def of(cls, stepping: Stepping, steps: int = RECORDED_STEPS) -> "Recording":
        """Record a run: step the native environments of `stepping` `steps` times with random actions."""
        state = NativeState.of(stepping)
        _, simulations = state.env.simulated
        actions = state.draw(np.random.default_rng(0), steps)
        over = np.zeros((steps, stepping.count), np.bool_)
        first, starts = states_of(simulations), []
        for t, one in enumerate(actions):
            state.env.step(one, state.buffers)
            over[t] = state.terminated | state.truncated
            starts += [states_of([simulations[i]])[0] for i in np.flatnonzero(over[t])]
        width = first.shape[1]
        return cls(actions, over, first, np.array(starts).reshape(-1, width), states_of(simulations))


def states_of(simulations: Any) -> npt.NDArray[np.float64]:
    """Return the positions and velocities of N MuJoCo simulations (`MjData`), (N, positions + velocities) float64."""
    return np.array([np.concatenate([data.qpos, data.qvel]) for data in simulations])


@dataclass
class Repeated:
    """A recorded run that is repeated a few steps at a time, and from its beginning again when it is over.

    Attributes:
        step: function of two numbers of steps; takes the steps from the first number up to, but not including, the
            second.
        begin: sets the environments to the states in which the run begins.
        states: returns the present states, (N, positions + velocities) float64.
        steps: number of steps that a timed call takes.
        at: number of the next step; -1 before the beginning.
    """

    recording: Recording
    step: Callable[[int, int], None]
    begin: Callable[[], None]
    states: Callable[[], npt.NDArray[np.float64]]
    steps: int
    at: int = field(default=-1)

    def advance(self) -> None:
        """Take the next `steps` steps of the recording, from its beginning if it is over."""
        if self.at < 0 or self.at >= len(self.recording.actions):
            self.begin()
            self.at = 0
        self.step(self.at, self.at + self.steps)
        self.at += self.steps

    def check(self) -> None:
        """Repeat the whole recording once, and compare the final states bit for bit."""
        self.at = -1
        for _ in range(len(self.recording.actions) // self.steps):
            self.advance()
        assert np.array_equal(self.states(), self.recording.last), (
            "it ends in other states than the recording"
        )


def repeated_cases(stepping: Stepping, recording: Recording) -> list[Case[Repeated]]:
    """Return two cases that repeat the same recorded run: the native environments, and MuJoCo's `mj_step` alone."""

    def native_setup() -> Repeated:
        state = NativeState.of(stepping)
        actions = recording.actions
        return Repeated(
            recording,
            lambda start, end: state.step(actions[start:end]),
            state.reset,
            lambda: states_of(state.env.simulated[1]),
            stepping.steps,
        )

    def native_check(repeated: Repeated) -> None:
        check_against_gymnasium(stepping)
        repeated.check()

    def bare_setup() -> Repeated:
        import mujoco
        from placerl.harness._experiments import BareMujoco

        model = mujoco_simulations.load(stepping.id)
        simulations = [mujoco.MjData(model) for _ in range(stepping.count)]
        addresses = [
            [data._address, data.qpos.ctypes.data, data.qvel.ctypes.data, data.ctrl.ctypes.data]
            for data in simulations
        ]
        frame_skip = native.mujoco_frame_skips()[stepping.id]
        bare = BareMujoco(
            list(mujoco_simulations.functions()[:3]),
            model._address,
            [model.nq, model.nv, model.nu, frame_skip],
            addresses,
        )
        # Episodes that began before each step, and what has the addresses.
        begun = np.concatenate([[0], np.cumsum(recording.over.sum(axis=1))])
        owners = (model, simulations)

        def step(start: int, end: int) -> None:
            assert owners
            bare.run(
                recording.actions[start:end], recording.over[start:end], recording.starts[begun[start] :]
            )

        return Repeated(
            recording,
            step,
            lambda: bare.begin(recording.first),
            lambda: states_of(simulations),
            stepping.steps,
        )

    def case(name: str, setup: Callable[[], Repeated], check: Callable[[Repeated], None]) -> Case[Repeated]:
        return Case(name, setup, check, lambda _, rng: None, lambda repeated, _: repeated.advance())

    return [case("native", native_setup, native_check), case("mj_step alone", bare_setup, Repeated.check)]
