"""Defines the base class of the workers' agents, which train in timed rounds, and creates their environments.

A worker trains with one library in the library's virtual environment, and answers jobs, requests for gradient steps
(`harness/compare/protocol.py`).
"""

import gc
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from job_loop import CPU, UnsupportedError, register_environments, versions

WARM_UP_GRADIENT_STEPS = 50
_LARGEST_SEED = 2**30  # as in `harness/runtime/evaluation.py`: the same starts
# In this module, where a library that pickles its environments finds it by name.
RETURNS: list[float] = []


class Agent(ABC):
    """The base class of agents, which train in rounds: some environment steps, then the gradient steps for them.

    Attributes:
        packages: packages whose versions a result reports.
        gradient_steps, environment_steps: numbers of steps so far; a subclass counts them.
        episode_returns: returns of the episodes that ended in the current job; a subclass appends to them.
        notes: where the library departs from the workload, and settings of its own, by subject.
        terms_s: seconds of the current job by part of the loop, if the subclass notes them (`spend`).
        on_policy: whether the subclass learns from its latest samples alone, as PPO does.
        devices: kinds of device that the subclass can put the library's networks on.
        learns_alone: whether the subclass can run learner and replay without environment steps.
        anneals: whether its step sizes fall as the workload says.
        takes_settings: whether jobs may have settings of the library's own.
        alone: whether the current job runs only learner and replay, without environment steps.
    """

    packages: tuple[str, ...] = ()
    on_policy = False
    devices: tuple[str, ...] = (CPU,)
    learns_alone = False
    anneals = False
    takes_settings = False
    alone = False

    def __init__(self) -> None:
        self.gradient_steps = self.environment_steps = 0
        self.episode_returns: list[float] = []
        self.notes: dict[str, str] = {}
        self.terms_s: dict[str, float] = {}

    def spend(self, **terms_s: float) -> None:
        """Add seconds to parts of the loop, such as "environment", "infer" and "learner"."""
        for name, seconds in terms_s.items():
            self.terms_s[name] = self.terms_s.get(name, 0.0) + seconds

    @abstractmethod
    def iterate(self) -> None:
        """Train one round: environment steps, then the gradient steps that belong to them."""

    def learn(self, gradient_steps: int) -> None:
        """Take 1 to `gradient_steps` gradient steps with the transitions in the replay, without environment steps."""
        raise NotImplementedError

    def greedy(self, observation: np.ndarray) -> Any:
        """Return the present policy's action without exploration: a whole number, or (A,) in [-1, 1].

        Args:
            observation: one observation of the environment.
        """
        raise UnsupportedError("greedy episodes are not mapped to it")

    def evaluate(self, environment: dict[str, Any], seed: int, episodes: int) -> list[float]:
        """Return the undiscounted returns of greedy episodes, in an environment of their own.

        Args:
            environment: the workload's `[environment]` table.
            seed: seed of the starts, which are those of `harness.runtime.evaluation`.
        """
        env, returns = make_environment(environment), []
        for number in range(episodes):
            observation, _ = env.reset(seed=seed % _LARGEST_SEED + number)
            total, over = 0.0, False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(
                    _taken(env.action_space, self.greedy(observation))
                )
                total, over = total + float(reward), terminated or truncated
            returns.append(total)
        env.close()
        return returns

    def warm_up(self) -> None:
        """Train until everything that happens only once, such as allocations, has happened.

        PPO's warm-up is one iteration in every library and in this project. Its gradient steps take so many
        environment steps that a longer one would be a lead when returns at equal steps are compared.
        """
        self.train_until(1 if self.on_policy else WARM_UP_GRADIENT_STEPS)

    def train_until(self, gradient_steps: int) -> None:
        """Train until `self.gradient_steps` is at least `gradient_steps`; a subclass may use its library's own loop."""
        while self.gradient_steps < gradient_steps:
            if self.alone:
                self.learn(gradient_steps - self.gradient_steps)
            else:
                self.iterate()

    def advance(self, gradient_steps: int) -> dict[str, Any]:
        """Continue training for at least `gradient_steps` gradient steps, and return the fields of a job's result.

        Returns:
            `gradient_steps` and `environment_steps` taken, `environment_steps_so_far`, `wall_s` (seconds),
            `episode_returns` of the episodes that ended, `versions` of packages by name, `notes`, and `terms_s`.
        """
        gc.collect()
        self.episode_returns.clear()
        self.terms_s.clear()
        before = self.gradient_steps, self.environment_steps
        start_s = time.perf_counter()
        self.train_until(before[0] + gradient_steps)
        wall_s = time.perf_counter() - start_s
        if self.alone and self.environment_steps != before[1]:
            raise RuntimeError(
                f"alone: found {self.environment_steps - before[1]} environment steps; allowed: none"
            )
        return {
            "gradient_steps": self.gradient_steps - before[0],
            "environment_steps": self.environment_steps - before[1],
            "environment_steps_so_far": self.environment_steps,
            "wall_s": wall_s,
            "episode_returns": list(self.episode_returns),
            "versions": versions(*self.packages),
            "notes": self.notes,
            "terms_s": dict(self.terms_s),
        }


def _taken(space: gymnasium.Space, action: Any) -> Any:
    """Return an action of a policy as the environment takes it."""
    if not isinstance(space, gymnasium.spaces.Box):
        return int(action)
    return space.low + (np.clip(action, -1, 1) + 1) * ((space.high - space.low) / 2)


def cadence(training: dict[str, Any]) -> tuple[int, int]:
    """Return the smallest numbers of environment steps and gradient steps that have the workload's ratio.

    Args:
        training: the workload's `[training]` table.

    Returns:
        How many steps each environment takes in a round of training, and how many gradient steps follow.
    """
    common = math.gcd(training["actors"], training["update_interval"])
    return training["update_interval"] // common, training["actors"] // common


def anneal(optimizers: Iterable[Any], algorithm: dict[str, Any], gradient_steps: int) -> None:
    """Set the step sizes of PyTorch's optimisers to what a workload leaves of them.

    Args:
        optimizers: `torch.optim.Optimizer`s, which keep their first step sizes.
        algorithm: the workload's `[algorithm]` table.
    """
    steps = algorithm.get("annealing_steps")
    if steps is None:
        return
    part = max(0.01, 1 - 0.99 * gradient_steps / steps)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = part * group.setdefault("initial_lr", group["lr"])


def hidden_layers(
    workload: dict[str, Any], activations: dict[str, Any], system: str
) -> tuple[list[int], Any]:
    """Return the sizes of the network's hidden layers, and the library's object for its activation function.

    Args:
        workload: the tables of the workload's file.
        activations: the library's objects by name, such as "relu".

    Raises:
        UnsupportedError: the workload has another kind of network.
    """
    network = workload["network"]
    if network["kind"] != "mlp" or network["activation"] not in activations:
        raise UnsupportedError(
            f"network {network['kind']} with {network['activation']} is not mapped to {system}"
        )
    return list(network["hidden"]), activations[network["activation"]]


def make_environment(environment: dict[str, Any]) -> gymnasium.Env:
    """Create the Gymnasium environment of a workload.

    Args:
        environment: the workload's `[environment]` table.

    Raises:
        UnsupportedError: the environment is not registered in this virtual environment, or needs a package that is
            not installed.
    """
    register_environments()
    try:
        return gymnasium.make(environment["id"], disable_env_checker=True, **environment["kwargs"])
    except (gymnasium.error.Error, ImportError) as error:
        installed = f"gymnasium {gymnasium.__version__}"
        raise UnsupportedError(
            f"environment {environment['id']} is not there with {installed}: {error}"
        ) from error


class KeptReturns(gymnasium.Wrapper):
    """Appends the return of each episode that ends to this module's list `RETURNS`.

    It serves libraries that do not report the returns of whole episodes.
    """

    def __init__(self, environment: gymnasium.Env) -> None:
        super().__init__(environment)
        self._return = 0.0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        answer = self.env.step(action)
        self._return += float(answer[1])
        if answer[2] or answer[3]:
            RETURNS.append(self._return)
            self._return = 0.0
        return answer


class Environments:
    """The N environments of a workload, stepped one after another in a plain loop.

    This avoids the overhead of a library's vector environment.

    Args:
        workload: the tables of the workload's file.
        seed: seed of the first environment; the others count on from it.
        episode_returns: list to which the undiscounted returns of ended episodes are appended.

    Attributes:
        observations: (N, *observation_shape), each environment's current observation; a new array after each step.
    """

    def __init__(self, workload: dict[str, Any], seed: int, episode_returns: list[float]) -> None:
        environments = [
            make_environment(workload["environment"]) for _ in range(workload["training"]["actors"])
        ]
        self.environments, self.action_space = environments, environments[0].action_space
        self.episode_returns = episode_returns
        self.observations = np.stack([one.reset(seed=seed + n)[0] for n, one in enumerate(environments)])
        self._returns = [0.0] * len(environments)
        self._scale = None
        if isinstance(self.action_space, gymnasium.spaces.Box):
            low, high = self.action_space.low, self.action_space.high
            if not ((low == -1).all() and (high == 1).all()):
                self._scale = (high - low) / 2, (high + low) / 2
        self.action_space.seed(seed)

    def random_actions(self) -> np.ndarray:
        """Draw a uniformly random action for each environment: (N,) discrete, or (N, A) continuous in [-1, 1]."""
        drawn = np.stack([self.action_space.sample() for _ in self.environments])
        return drawn if self._scale is None else (drawn - self._scale[1]) / self._scale[0]

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Take a step in every environment; an environment whose episode ends begins a new one.

        Args:
            actions: (N,) int, or (N, A) float in [-1, 1], which is scaled to the environment's bounds.

        Returns:
            The result of the steps, before any reset: observations (N, ...), rewards (N,) float32, terminated
                (N,) and truncated (N,) bool.
        """
        if self._scale is not None:
            actions = actions * self._scale[0] + self._scale[1]
        outcomes = [one.step(action) for one, action in zip(self.environments, actions, strict=True)]
        following, rewards, terminated, truncated, _ = zip(*outcomes, strict=True)
        present = list(following)
        for n, reward in enumerate(rewards):
            self._returns[n] += float(reward)
            if terminated[n] or truncated[n]:
                self.episode_returns.append(self._returns[n])
                self._returns[n] = 0.0
                present[n] = self.environments[n].reset()[0]
        self.observations = np.stack(present)
        return np.stack(following), np.array(rewards, np.float32), np.array(terminated), np.array(truncated)
