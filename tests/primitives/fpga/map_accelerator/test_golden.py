"""The golden model of MAP's accelerator against the project's own DQN step, in PyTorch, and its replay."""

import numpy as np
import pytest
import torch

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives import algorithms
from placerl.primitives.algorithms.ddpg import DdpgState
from placerl.primitives.algorithms.dqn import DqnState
from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import PURE, AdamState
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, FRACTION
from placerl.primitives.fpga.map_accelerator.settings import PRIORITY
from placerl.primitives.replay.prioritized import importance_weights
from tests.primitives.fpga.map_accelerator.accelerator_cases import CARTPOLE, DDPG, first_weights, transitions
from tests.primitives.fpga.map_accelerator.golden import GoldenAccelerator, StepHyperparameters

BATCH = 32
STEP = 2**-16  # of the fixed-point format


def parameters(matrices: list[np.ndarray]) -> Parameters:
    """A network's parameters by name, from (outputs, inputs + 1) of each layer."""
    named = {}
    for number, matrix in enumerate(matrices):
        named[f"{number}.weight"] = torch.from_numpy(matrix[:, :-1].astype(np.float32))
        named[f"{number}.bias"] = torch.from_numpy(matrix[:, -1].astype(np.float32))
    return named


def joined(named: Parameters) -> np.ndarray:
    """All numbers of parameters, in the order of `parameters`."""
    return np.concatenate([value.numpy().ravel() for value in named.values()])


@pytest.mark.parametrize("huber", [True, False])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_a_step_is_the_projects_dqn_step(huber: bool, tau: float) -> None:
    rng = np.random.default_rng(0)
    hyper = StepHyperparameters(learning_rate=1e-2, tau=tau, target_interval=2, epsilon=0.01, huber=huber)
    # Weights twice as large, so that most gradients are far above a rounding error.
    model = GoldenAccelerator(CARTPOLE, [2 * weight for weight in first_weights(CARTPOLE, rng)])
    model.insert(transitions(CARTPOLE, 100, rng), rng.integers(1, 1 << 18, 100))
    dqn = algorithms.create(
        "dqn",
        observation_shape=(CARTPOLE.states,),
        action_size=CARTPOLE.actions,
        network={"hidden": (8, 8)},
        hyperparameters={
            "learning_rate": hyper.learning_rate,
            "gamma": hyper.gamma,
            "double": True,
            "target_interval": hyper.target_interval,
            "tau": tau,
            "loss": "huber" if huber else "squared",
        },
    )
    for step in range(4):
        kept = {
            name: parameters([getattr(layer, name) for layer in model.layers])
            for name in ("weight", "mean", "square", "target")
        }
        adam = AdamState(torch.tensor(float(step)), kept["mean"], kept["square"])
        before = model.priorities.copy()
        found = model.step(BATCH, hyper)
        drawn = {name: values[found.leaves] for name, values in model.transitions.items()}
        weight = importance_weights(before[found.leaves].astype(np.float64), 1.0, 1, hyper.beta)
        np.testing.assert_allclose(FRACTION.to_float(found.weights), weight, atol=1e-5)
        real = {
            "observation": FORMAT.to_float(drawn["state"]),
            "next_observation": FORMAT.to_float(drawn["next_state"]),
            "reward": FORMAT.to_float(drawn["reward"]),
            "terminated": drawn["terminated"],
            "weight": weight,
        }
        batch = {name: torch.from_numpy(np.asarray(value, np.float32)) for name, value in real.items()}
        batch["action"] = torch.from_numpy(drawn["action"])
        result = dqn.gradient_step(
            DqnState(kept["weight"], kept["target"], adam), batch, variant=dqn.variant(step)
        )
        state = result.state
        np.testing.assert_allclose(FORMAT.to_float(found.tds), result.td_error.numpy(), atol=20 * STEP)
        expected = (np.abs(FORMAT.to_float(found.tds)) + hyper.epsilon) ** hyper.alpha
        np.testing.assert_allclose(PRIORITY.to_float(found.priorities), expected, atol=1e-4)
        np.testing.assert_array_equal(model.priorities[found.leaves], found.priorities)

        ours = {name: joined(parameters([getattr(layer, name) for layer in model.layers])) for name in kept}
        mean = joined(state.adam.mean)
        np.testing.assert_allclose(ours["mean"], mean, atol=3 * STEP)
        # Where the gradient is far above a rounding error; else Adam's step has the size of the rate, with any sign.
        sure = np.abs(mean) > 100 * STEP
        assert sure.mean() > 0.6
        for name, theirs in (("weight", state.q), ("target", state.target_q)):
            np.testing.assert_allclose(ours[name][sure], joined(theirs)[sure], atol=hyper.learning_rate / 50)


@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_a_step_is_the_projects_ddpg_step(tau: float) -> None:
    rng = np.random.default_rng(0)
    hyper = StepHyperparameters(
        learning_rate=1e-2, actor_learning_rate=5e-3, tau=tau, epsilon=0.01, beta=0.0, huber=False
    )
    model = GoldenAccelerator(DDPG, [2 * weight for weight in first_weights(DDPG, rng)])
    model.insert(transitions(DDPG, 100, rng), rng.integers(1, 1 << 18, 100))
    ddpg = algorithms.create(
        "ddpg",
        observation_shape=(DDPG.states,),
        action_size=DDPG.actions,
        network={"hidden": (8, 8)},
        hyperparameters={
            "actor_learning_rate": hyper.actor_learning_rate,
            "critic_learning_rate": hyper.learning_rate,
            "gamma": hyper.gamma,
            "tau": tau,
        },
    )
    count = len(DDPG.actor)
    for step in range(3):
        networks = {"actor": model.layers[:count], "critic": model.layers[count:]}
        kept = {
            (network, name): parameters([getattr(layer, name) for layer in layers])
            for network, layers in networks.items()
            for name in ("weight", "mean", "square", "target")
        }
        time = torch.tensor(float(step))
        state = DdpgState(
            actor=kept["actor", "weight"],
            critic=kept["critic", "weight"],
            target_actor=kept["actor", "target"],
            target_critic=kept["critic", "target"],
            actor_adam=AdamState(time, kept["actor", "mean"], kept["actor", "square"]),
            critic_adam=AdamState(time, kept["critic", "mean"], kept["critic", "square"]),
        )
        found = model.step(BATCH, hyper)
        drawn = {name: values[found.leaves] for name, values in model.transitions.items()}
        real = {
            "observation": FORMAT.to_float(drawn["state"]),
            "next_observation": FORMAT.to_float(drawn["next_state"]),
            "action": FORMAT.to_float(drawn["action"]),
            "reward": FORMAT.to_float(drawn["reward"]),
            "terminated": drawn["terminated"],
            "weight": np.ones(BATCH),
        }
        batch = {name: torch.from_numpy(np.asarray(value, np.float32)) for name, value in real.items()}
        result = ddpg.gradient_step(state, batch)
        np.testing.assert_allclose(FORMAT.to_float(found.tds), result.td_error.numpy(), atol=20 * STEP)
        after = result.state
        networks = {"actor": model.layers[:count], "critic": model.layers[count:]}
        ours = {
            (network, name): parameters([getattr(layer, name) for layer in layers])
            for network, layers in networks.items()
            for name in ("weight", "mean", "target")
        }

        def actor_loss(actor: Parameters, critic: Parameters, seen: torch.Tensor) -> torch.Tensor:
            return -ddpg.critic(critic, torch.cat([seen, ddpg.actor(actor, seen)], 1)).mean()

        # Through our new critic: where a gradient is near 0, Adam's first steps may go the other way.
        slopes = torch.func.grad(actor_loss)(state.actor, ours["critic", "weight"], batch["observation"])
        new_actor, actor_adam = PURE.adam(state.actor, slopes, state.actor_adam, hyper.actor_learning_rate)
        target_actor = PURE.polyak(state.target_actor, new_actor, tau)
        for network, new, target, adam, rate in (
            ("critic", after.critic, after.target_critic, after.critic_adam, hyper.learning_rate),
            ("actor", new_actor, target_actor, actor_adam, hyper.actor_learning_rate),
        ):
            mean = joined(adam.mean)
            np.testing.assert_allclose(joined(ours[network, "mean"]), mean, atol=3 * STEP)
            sure = np.abs(mean) > 100 * STEP
            assert sure.mean() > 0.6
            for name, theirs in (("weight", new), ("target", target)):
                found_there = joined(ours[network, name])[sure]
                np.testing.assert_allclose(found_there, joined(theirs)[sure], atol=rate / 20)


def test_leaves_are_sampled_in_proportion_to_their_priorities() -> None:
    rng = np.random.default_rng(1)
    model = GoldenAccelerator(CARTPOLE, first_weights(CARTPOLE, rng))
    priorities = np.array([1, 2, 4, 0, 8])
    model.insert(transitions(CARTPOLE, 5, rng), priorities)
    drawn = np.concatenate([model._sample(BATCH) for _ in range(200)])
    share = np.bincount(drawn, minlength=CARTPOLE.capacity) / len(drawn)
    np.testing.assert_allclose(share, model.priorities / model.priorities.sum(), atol=0.02)
