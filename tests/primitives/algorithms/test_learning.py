"""Each algorithm learns a small task in seconds; with its gradients' sign turned round it does not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from primitives import algorithms, learner
from primitives.algorithms.ppo import Rollout
from primitives.learner import Learner
from primitives.learner.in_place import InPlaceUpdates
from primitives.replay import FieldSpec, Storage, UniformReplay, transition_fields

EVALUATION_EPISODES = 5


@dataclass(frozen=True)
class Task:
    """What is learnt, and how far.

    Attributes:
        environment: Gymnasium's id; actions in [-1, 1] are scaled to its bounds.
        arguments: of `algorithms.create`, beside the network of two layers.
        steps: environment steps.
        untrained: more than the untrained network's mean return, and random actions'.
        learnt: less than the trained one's: between the two lies what only learning reaches.
        batch_size: samples of a gradient step.
        learning_starts: environment steps with random actions.
        seed: of everything random.
    """

    environment: str
    arguments: dict[str, Any] = field(hash=False)
    steps: int
    untrained: float
    learnt: float
    batch_size: int = 64
    learning_starts: int = 300
    seed: int = 0


PENDULUM = {"observation_shape": (3,), "action_size": 1}  # random actions return about -1200, at most 0
CARTPOLE = {"observation_shape": (4,), "action_size": 2}  # random actions return about 22, at most 500
RATES = {"actor_learning_rate": 2e-3, "critic_learning_rate": 2e-3, "gamma": 0.97}

TASKS = {
    "dqn": Task(
        "CartPole-v1",
        CARTPOLE
        | {
            "hyperparameters": {
                "learning_rate": 2e-3,
                "target_interval": 20,
                "double": True,
                "loss": "squared",
                "exploration_steps": 2000,
            }
        },
        steps=5000,
        untrained=50,
        learnt=130,
        seed=1,
    ),
    "ddpg": Task(
        "Pendulum-v1",
        PENDULUM
        | {"hyperparameters": RATES | {"actor_learning_rate": 1e-3, "tau": 0.01, "exploration_noise": 0.2}},
        steps=5000,
        untrained=-800,
        learnt=-350,
    ),
    "td3": Task(
        "Pendulum-v1",
        PENDULUM | {"hyperparameters": RATES | {"tau": 0.01, "exploration_noise": 0.2}},
        steps=5000,
        untrained=-800,
        learnt=-350,
    ),
    "sac": Task(
        "Pendulum-v1",
        PENDULUM | {"hyperparameters": RATES | {"temperature_learning_rate": 2e-3, "tau": 0.02}},
        steps=3000,
        untrained=-800,
        learnt=-350,
    ),
    "ppo": Task(
        "CartPole-v1",
        CARTPOLE
        | {
            "action_kind": "discrete",
            "hyperparameters": {
                "policy_learning_rate": 3e-3,
                "value_learning_rate": 3e-3,
                "trajectory_length": 64,
                "epochs": 5,
                "gamma": 0.98,
                "target_kl": 0.03,
            },
        },
        steps=8 * 64 * 25,
        untrained=150,
        learnt=300,
        batch_size=128,
    ),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks on one thread: more only wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def applied(agent: Learner, environment: Any, action: np.ndarray) -> np.ndarray:
    """The action as the environment takes it."""
    return action if agent.algorithm.discrete else action * environment.action_space.high


def mean_return(agent: Learner, task: Task) -> float:
    """Of greedy episodes."""
    environment, returns = gymnasium.make(task.environment), []
    for episode in range(EVALUATION_EPISODES):
        observation, total, over = environment.reset(seed=1000 + episode)[0], 0.0, False
        while not over:
            action = agent.act(observation.astype(np.float32))
            observation, reward, terminated, truncated, _ = environment.step(
                applied(agent, environment, action)
            )
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def train_from_replay(agent: Learner, task: Task) -> None:
    """One environment, uniform replay, a gradient step an environment step."""
    rng, environment, algorithm = (
        np.random.default_rng(task.seed),
        gymnasium.make(task.environment),
        agent.algorithm,
    )
    kind = FieldSpec((), np.int64) if algorithm.discrete else FieldSpec((algorithm.action_size,), np.float32)
    fields = transition_fields(FieldSpec(algorithm.observation_shape, np.float32), kind)
    replay = UniformReplay(Storage(task.steps, fields))
    observation, _ = environment.reset(seed=task.seed)
    for step in range(task.steps):
        observation = observation.astype(np.float32)
        if step >= task.learning_starts:
            action = agent.explore(observation, step, rng)
        elif algorithm.discrete:
            action = rng.integers(algorithm.action_size)
        else:
            action = rng.uniform(-1, 1, algorithm.action_size).astype(np.float32)
        following, reward, terminated, truncated, _ = environment.step(applied(agent, environment, action))
        columns = {
            "observation": observation,
            "action": action,
            "reward": reward,
            "next_observation": following,
            "terminated": terminated,
        }
        replay.insert({name: np.asarray(value)[None] for name, value in columns.items()})
        observation = environment.reset()[0] if terminated or truncated else following
        if step >= task.learning_starts:
            agent.step(replay.sample(task.batch_size, rng).batch)


def train_in_iterations(agent: Learner, task: Task) -> None:
    """Eight environments; K epochs of minibatches follow every T steps, with early stopping."""
    rng, algorithm = np.random.default_rng(task.seed), agent.algorithm
    environments = gymnasium.make_vec(
        task.environment,
        8,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED},
    )
    observation, _ = environments.reset(seed=task.seed)
    rows: list[tuple[np.ndarray, ...]] = []
    for _ in range(task.steps // 8):
        action = agent.explore(observation, 0, rng)
        following, reward, terminated, truncated, _ = environments.step(action)
        following = following.astype(np.float32)
        rows.append((observation, action, reward, following, terminated, truncated))
        observation = following
        if (over := terminated | truncated).any():
            fresh, _ = environments.reset(options={"reset_mask": over})
            observation = np.where(over[:, None], fresh, following).astype(np.float32)
        if len(rows) == algorithm.hyperparameters.trajectory_length:
            rollout = Rollout(*map(np.stack, zip(*rows, strict=True)))
            samples, variant = algorithm.prepare(agent.parameters(), rollout), "full"
            for batch in algorithm.minibatches(samples, agent.batch_size, rng):
                if algorithm.early_stop(agent.step(batch, variant=variant).losses):
                    variant = "value"
            rows = []


def returns_before_and_after(name: str) -> tuple[float, float]:
    """Of the named algorithm's task."""
    task = TASKS[name]
    network = {"hidden": [64, 64], "activation": "tanh" if name == "ppo" else "relu"}
    algorithm = algorithms.create(name, **task.arguments, network=network)
    agent = learner.create(algorithm, batch_size=task.batch_size, seed=task.seed)
    before = mean_return(agent, task)
    train: Callable[[Learner, Task], None] = train_in_iterations if name == "ppo" else train_from_replay
    train(agent, task)
    return before, mean_return(agent, task)


@pytest.mark.parametrize("name", TASKS)
def test_it_learns(name):
    before, after = returns_before_and_after(name)
    assert before < TASKS[name].untrained
    assert after > TASKS[name].learnt


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_with_the_wrong_sign_it_does_not(name, monkeypatch):
    right = InPlaceUpdates.adam

    def wrong(self, parameters, gradients, state, learning_rate):
        return right(
            self, parameters, {key: -value for key, value in gradients.items()}, state, learning_rate
        )

    monkeypatch.setattr(InPlaceUpdates, "adam", wrong)
    _, after = returns_before_and_after(name)
    assert not after > TASKS[name].learnt
