"""Trains each algorithm on the rail, and measures how its return is distributed over seeds.

`python -m tests.primitives.algorithms.trainings --seeds 0 32` prints a line for every algorithm and kind of agent;
set ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA or MKL_ENABLE_INSTRUCTIONS to measure other instruction sets.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from placerl.primitives import algorithms, learner
from placerl.primitives.algorithms.ppo import Rollout
from placerl.primitives.learner import Learner
from placerl.primitives.learner.torch.in_place import InPlaceUpdates
from placerl.primitives.replay import FieldSpec, Storage, UniformReplay, transition_fields
from tests.primitives.algorithms.rail import Rail, mean_return

RIGHT, WRONG, UNTRAINED = AGENTS = ("right", "wrong", "untrained")
"""An algorithm as it is; one whose optimiser follows gradients of the wrong sign; one that takes no step.

PPO's values keep their sign: they only lessen the noise of its gradients, and 2 of 39 agents learnt in spite of values
of the wrong sign, as did 2 of 8 with both networks' turned, for then the end of an episode looks good to a policy that
avoids what looks good.
"""

RAILS = 8
RANDOM_STEPS = 100
"""With random actions, before the first gradient step."""
RATES = {"actor_learning_rate": 1e-3, "critic_learning_rate": 3e-3, "gamma": 0.9, "tau": 0.05}
BATCH_SIZE = 64


@dataclass(frozen=True)
class Task:
    """How an algorithm is trained.

    Attributes:
        steps: of all rails together, each followed by a gradient step; of PPO, in its iterations.
        hyperparameters: of `algorithms.create`.
        seeds: that judge it, an odd number: more where single seeds fail more often.
    """

    steps: int
    hyperparameters: dict[str, Any]
    seeds: int = 9


TASKS = {
    "dqn": Task(
        500,
        {
            "learning_rate": 2e-3,
            "gamma": 0.9,
            "target_interval": 20,
            "double": True,
            "loss": "squared",
            "exploration_steps": 300,
        },
    ),
    "ddpg": Task(600, RATES | {"exploration_noise": 0.5}, seeds=15),
    "td3": Task(600, RATES | {"exploration_noise": 0.5}, seeds=13),
    "sac": Task(400, RATES | {"actor_learning_rate": 2e-3, "temperature_learning_rate": 5e-3}),
    "ppo": Task(
        15 * 32,
        {
            "policy_learning_rate": 3e-3,
            "value_learning_rate": 3e-3,
            "trajectory_length": 32,
            "epochs": 5,
            "gamma": 0.9,
            "target_kl": 0.03,
        },
    ),
}


def created(name: str, seed: int) -> Learner:
    """Return a learner of the named algorithm with its first parameters."""
    discrete = name in ("dqn", "ppo")
    algorithm = algorithms.create(
        name,
        observation_shape=(2,),
        action_size=2 if discrete else 1,
        network={"hidden": [32, 32], "activation": "tanh" if name == "ppo" else "relu"},
        hyperparameters=TASKS[name].hyperparameters,
        **({"action_kind": "discrete"} if name == "ppo" else {}),
    )
    return learner.create(algorithm, batch_size=BATCH_SIZE, seed=seed)


def train_from_replay(agent: Learner, steps: int, seed: int) -> None:
    """Train on uniform replay, a gradient step for each step of all rails."""
    rng, discrete = np.random.default_rng(seed), agent.algorithm.discrete
    rail = Rail(RAILS, discrete=discrete, seed=seed)
    kind = FieldSpec((), np.int64) if discrete else FieldSpec((1,), np.float32)
    replay = UniformReplay(Storage(RAILS * steps, transition_fields(FieldSpec((2,), np.float32), kind)))
    for step in range(steps):
        observation = rail.observation
        if step >= RANDOM_STEPS:
            action = agent.explore(observation, step, rng)
        elif discrete:
            action = rng.integers(2, size=RAILS)
        else:
            action = rng.uniform(-1, 1, (RAILS, 1)).astype(np.float32)
        following, reward, terminated, truncated = rail.step(action)
        replay.insert(
            {
                "observation": observation,
                "action": action,
                "reward": reward,
                "next_observation": following,
                "terminated": terminated,
            }
        )
        rail.restart(terminated | truncated)
        if step >= RANDOM_STEPS:
            agent.step(replay.sample(BATCH_SIZE, rng).batch)


def train_in_iterations(agent: Learner, steps: int, seed: int) -> None:
    """Train in epochs of minibatches after every trajectory, with early stopping."""
    rng, algorithm = np.random.default_rng(seed), agent.algorithm
    rail = Rail(RAILS, discrete=algorithm.discrete, seed=seed)
    rows: list[tuple[np.ndarray, ...]] = []
    for _ in range(steps):
        observation = rail.observation
        action = agent.explore(observation, 0, rng)
        rows.append((observation, action, *_in_order(rail.step(action))))
        rail.restart(rows[-1][4] | rows[-1][5])
        if len(rows) == algorithm.hyperparameters.trajectory_length:
            rollout = Rollout(*map(np.stack, zip(*rows, strict=True)))
            samples, variant = algorithm.prepare(agent.parameters(), rollout), "full"
            for batch in algorithm.minibatches(samples, agent.batch_size, rng):
                if algorithm.early_stop(agent.step(batch, variant=variant).losses):
                    variant = "value"
            rows = []


def _in_order(step: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    following, reward, terminated, truncated = step
    return reward, following, terminated, truncated


def final_return(name: str, seed: int, agent: str) -> float:
    """Return the mean return, 0 to 40, of a new agent after the algorithm's task."""
    made, right = created(name, seed), InPlaceUpdates.adam

    def wrong(self: Any, parameters: Any, gradients: Any, state: Any, learning_rate: float) -> Any:
        outputs = next(reversed(gradients.values())).numel()  # of PPO's value network 1, of its policy 2
        if name != "ppo" or outputs > 1:
            gradients = {key: -value for key, value in gradients.items()}
        return right(self, parameters, gradients, state, learning_rate)

    train: Callable[[Learner, int, int], None] = train_in_iterations if name == "ppo" else train_from_replay
    with pytest.MonkeyPatch.context() as patch:
        if agent == WRONG:
            patch.setattr(InPlaceUpdates, "adam", wrong)
        if agent != UNTRAINED:
            train(made, TASKS[name].steps, seed)
    return mean_return(made)


def main() -> None:
    """Print the sorted returns of the seeds asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 32), metavar=("FIRST", "END"))
    parser.add_argument("--algorithms", nargs="+", default=list(TASKS), choices=list(TASKS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name in asked.algorithms:
        for agent in AGENTS:
            found = sorted(final_return(name, seed, agent) for seed in range(*asked.seeds))
            print(f"{name}, {agent}:", *(f"{value:.1f}" for value in found), flush=True)


if __name__ == "__main__":
    main()
