"""The plain file's gradient steps are those of `primitives.algorithms`, and its replay holds what happened.

That these steps learn is tested there, over many seeds (`tests.primitives.algorithms.test_learning`); whether one
agent of the plain file reaches some return would depend on its seed and on the processor's rounding. In float64 and
with the same batches and draws both sides agree to far less than any mistake changes.
"""

import dataclasses
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.primitives.algorithms import Algorithm, create, networks

STEPS, BATCH_SIZE, OBSERVATION, ACTIONS = 6, 16, 5, 3
UNCLIPPED = {"maximum_gradient_norm": None, "value_coefficient": 1.0}
"""Settings with which PPO's one step on the sum of both losses is a step of each network on its own loss."""
ALGORITHMS = {
    "dqn": {"target_interval": 2, "tau": 0.3, "double": False, "loss": "huber", "learning_rate": 1e-2},
    "double dqn": {"target_interval": 2, "double": True, "loss": "squared", "learning_rate": 1e-2},
    "ddpg": {"tau": 0.1},
    "td3": {"tau": 0.1, "policy_delay": 2, "target_noise": 0.4, "target_noise_clip": 0.5},
    "sac": {"tau": 0.1, "initial_temperature": 0.5, "temperature_learning_rate": 1e-2},
    "sac of one temperature": {"tau": 0.1, "initial_temperature": 0.5, "tune_temperature": False},
    "discrete ppo": {"entropy_coefficient": 0.01, "policy_learning_rate": 1e-2} | UNCLIPPED,
    "continuous ppo": {"entropy_coefficient": 0.01, "policy_learning_rate": 1e-2} | UNCLIPPED,
}


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The plain file's module, whose networks are made in float64."""
    for folder in (registry.BASELINES, registry.ENVIRONMENTS, registry.BASELINES / "cleanrl_style"):
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "worker", raising=False)
    kind = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    module = importlib.import_module("worker")
    monkeypatch.setattr(module, "PPO_EPSILON", 1e-8)  # as of the references' Adam
    yield module
    torch.set_default_dtype(kind)
    sys.modules.pop("worker", None)


def reference(name: str) -> Algorithm:
    """The algorithm of `primitives.algorithms`."""
    kind = name.split()[-1] if "ppo" in name or "double" in name else name.split()[0]
    action_kind = name.split()[0] if kind == "ppo" else None
    return create(
        kind,
        observation_shape=(OBSERVATION,),
        action_size=ACTIONS,
        network={"hidden": [16, 16], "activation": "tanh" if kind == "ppo" else "relu"},
        hyperparameters=ALGORITHMS[name],
        action_kind=action_kind,
        dtype=torch.float64,
    )


def learner_of(plain: ModuleType, algorithm: Algorithm) -> object:
    """The plain file's learner of the same settings."""
    tables = {
        "algorithm": {**dataclasses.asdict(algorithm.hyperparameters), "name": algorithm.name},
        "network": {"kind": "mlp", "hidden": [16, 16], "activation": algorithm.network.activation},
        "environment": {"action_kind": "discrete" if algorithm.discrete else "continuous"},
    }
    kinds = plain.OffPolicy.learners | plain.OnPolicy.learners
    return kinds[algorithm.name](tables, OBSERVATION, ACTIONS)


def parameters(learner: object, state: object) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each parameter of the plain file's learner beside the same one of the reference's state."""
    names = {
        "DQN": {"q": "q", "target": "target_q"},
        "DDPG": {name: name for name in ("actor", "critic", "target_actor", "target_critic")},
        "TD3": {name: name for name in ("actor", "critics", "target_actor", "target_critics")},
        "SAC": {
            **{name: name for name in ("actor", "critics", "target_critics")},
            "log_alpha": "temperature",
        },
        "PPO": {"policy": "policy", "value": "value"},
    }[type(learner).__name__]
    pairs = []
    for own, theirs in names.items():
        module, values = getattr(learner, own), dict(getattr(state, theirs))
        if "log_std" in values:
            pairs.append((learner.log_std, values.pop("log_std")))
        held = [module] if isinstance(module, torch.Tensor) else list(module.parameters())
        if own.endswith("critics"):
            values = {
                (which, name): value
                for which in ("first", "second")
                for name, value in networks.part(values, which).items()
            }
        pairs += zip(held, values.values(), strict=True)
    return pairs


def batch_of(algorithm: Algorithm, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """A random batch, whose importance weights are 1."""
    batch = {}
    for name, (shape, kind) in algorithm.columns(BATCH_SIZE).items():
        if kind is torch.int64:
            batch[name] = torch.randint(0, ACTIONS, shape, generator=generator)
        else:
            batch[name] = torch.randn(shape, generator=generator, dtype=kind)
    if "terminated" in batch:
        batch["terminated"] = (batch["terminated"] > 0.5).double()
    return batch | {name: torch.ones(BATCH_SIZE) for name in batch.keys() & {"weight"}}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_gradient_steps_are_the_references(
    plain: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, generator = reference(name), torch.Generator().manual_seed(0)
    state, learner = algorithm.initialise(generator), learner_of(plain, algorithm)
    first = [value.clone() for _, value in parameters(learner, state)]
    for own, value in parameters(learner, state):
        own.data.copy_(value)
    for step in range(STEPS):
        batch, draws = batch_of(algorithm, generator), algorithm.draw(BATCH_SIZE, generator)
        # In the order in which the plain file draws: SAC's next action comes before the present one.
        waiting = [draws[noise] for noise in ("target_noise", "next_noise", "noise") if noise in draws]
        monkeypatch.setattr(torch, "randn_like", lambda like, drawn=waiting: drawn.pop(0))
        state = algorithm.gradient_step(state, batch, draws, algorithm.variant(step)).state
        if algorithm.name == "ppo":
            learner.update(batch)
        else:
            learner.train(batch, step + 1)
        assert not waiting
        for own, value in parameters(learner, state):
            torch.testing.assert_close(own.data, value, rtol=1e-7, atol=1e-9)
    moved = [
        not torch.equal(value, before)
        for (_, value), before in zip(parameters(learner, state), first, strict=True)
    ]
    assert all(moved) or name == "sac of one temperature"


def test_ppo_takes_one_step_and_clips_the_gradients_of_both_networks_together(plain: ModuleType) -> None:
    algorithm, norm = reference("continuous ppo"), 1e-3
    batch = batch_of(algorithm, torch.Generator().manual_seed(0))
    gradients = []
    for limit in (None, norm):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            learner = learner_of(plain, algorithm)
        assert sum(isinstance(one, torch.optim.Optimizer) for one in vars(learner).values()) == 1
        learner.settings["maximum_gradient_norm"] = limit
        learner.update(batch)
        trained = [*learner.policy.parameters(), learner.log_std, *learner.value.parameters()]
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in trained]))
    whole = gradients[0].norm()
    assert whole > norm
    torch.testing.assert_close(gradients[1], gradients[0] * norm / (whole + 1e-6))


@pytest.mark.parametrize(("name", "actors"), [("cartpole-dqn", 1), ("pendulum-td3", 3), ("pendulum-sac", 2)])
def test_its_replay_holds_what_the_environments_told(plain: ModuleType, name: str, actors: int) -> None:
    """Each row: what was seen, done, got and seen next, and whether the episode ended there for good."""
    torch.set_default_dtype(torch.float32)
    tables = workloads.load(name).tables()
    tables["training"] |= {"actors": actors, "learning_starts": 60}
    trainer = plain.trainer_of(
        {"workload": tables, "batch_size": 8, "seed": 0, "threads": 1, "gradient_steps": 1}
    )
    told, step = [], trainer.environments.step

    def spied(actions: np.ndarray) -> tuple[np.ndarray, ...]:
        seen = trainer.environments.observations
        following, rewards, terminated, truncated = step(actions)
        told.append((seen, actions, rewards, following, terminated))
        return following, rewards, terminated, truncated

    trainer.environments.step = spied
    trainer.begin()
    columns = [np.concatenate(parts) for parts in zip(*told, strict=True)]
    rows = len(columns[0])
    assert rows == trainer.environment_steps > 60
    names = ("observation", "action", "reward", "next_observation", "terminated")
    for field, column in zip(names, columns, strict=True):
        np.testing.assert_array_equal(trainer.replay._arrays[field][:rows], np.float32(column))
    assert columns[-1].any() == (name == "cartpole-dqn")
    flat = [np.float32(column).reshape(rows, -1) for column in columns]
    held = set(map(tuple, np.concatenate(flat, 1)))
    sample = trainer.replay.sample(256, np.random.default_rng(0))
    drawn = np.concatenate([np.float32(sample[field]).reshape(256, -1) for field in names], 1)
    assert held >= set(map(tuple, drawn))


def test_random_actions_do_not_ask_the_network(plain: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, rng, asked = learner_of(plain, reference("dqn")), np.random.default_rng(0), []
    learner.settings |= {"epsilon_initial": 1.0, "epsilon_final": 0.0, "exploration_steps": 10}

    def best(observation: torch.Tensor) -> torch.Tensor:
        asked.append(len(observation))
        return torch.full((len(observation),), 2)

    monkeypatch.setattr(learner, "best", best)
    observations = np.ones((8, OBSERVATION))
    assert 1 < len(set(learner.choose(observations, rng, 0, ACTIONS).tolist())) <= ACTIONS
    assert not asked
    assert learner.choose(observations, rng, 10, ACTIONS).tolist() == [2] * 8
    assert asked == [8]
