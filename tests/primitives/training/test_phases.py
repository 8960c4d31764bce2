"""Gradient steps in phases: learners on parts of a batch make the update of one learner on the whole batch."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from placerl.primitives.algorithms import Algorithm, tree
from placerl.primitives.algorithms.ddpg import DDPG
from placerl.primitives.algorithms.dqn import DQN, DqnHyperparameters
from placerl.primitives.algorithms.networks import NetworkDescription
from placerl.primitives.algorithms.sac import SAC
from placerl.primitives.algorithms.td3 import TD3
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.learner.native.executable import NativeExecutable
from placerl.primitives.training.phases import is_mean, phase_graphs

SMALL = NetworkDescription(hidden=(16, 16))
BATCH = 12
ALGORITHMS: dict[str, Algorithm] = {
    "dqn": DQN((4,), 2, SMALL, DqnHyperparameters(maximum_gradient_norm=0.05), action_kind="discrete"),
    "ddpg": DDPG((3,), 2, SMALL, action_kind="continuous"),
    "td3": TD3((3,), 2, SMALL, action_kind="continuous"),
    "sac": SAC((3,), 2, SMALL, action_kind="continuous"),
}


def batch_of(algorithm: Algorithm) -> dict[str, npt.NDArray]:
    rng = np.random.default_rng(0)
    made = {}
    for name, (shape, dtype) in algorithm.columns(BATCH).items():
        if dtype == torch.int64:
            made[f"batch/{name}"] = rng.integers(0, algorithm.action_size, shape)
        elif name == "terminated":
            made[f"batch/{name}"] = (rng.random(shape) < 0.3).astype(np.float32)
        elif name == "weight":
            made[f"batch/{name}"] = rng.uniform(0.1, 1, shape).astype(np.float32)
        else:
            made[f"batch/{name}"] = rng.standard_normal(shape).astype(np.float32)
    draws = algorithm.draw(BATCH, torch.Generator().manual_seed(1))
    return made | {f"draws/{name}": value.numpy() for name, value in draws.items()}


def started(graphs: dict[str, Any], algorithm: Algorithm) -> NativeExecutable:
    executable = NativeExecutable(graphs)
    state = algorithm.initialise(torch.Generator().manual_seed(2))
    for name, leaf in tree.flatten(state).items():
        executable.write_state(f"state/{name}", leaf.numpy())
    return executable


@pytest.mark.parametrize("learners", [1, 2, 3])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_parts_make_the_update_of_the_whole_batch(name: str, learners: int) -> None:
    algorithm = ALGORITHMS[name]
    whole = batch_of(algorithm)
    for variant in algorithm.variants:
        one = started({variant: step_graph(algorithm, BATCH, variant)}, algorithm)
        expected = one.step(variant, whole)
        graphs = phase_graphs(algorithm, BATCH // learners, variant)
        flat = {f"{variant}/{i}": graph for i, graph in enumerate(graphs)}
        several = [started(flat, algorithm) for _ in range(learners)]
        parts = [
            {key: np.split(value, learners)[rank] for key, value in whole.items()} for rank in range(learners)
        ]
        for i, key in enumerate(flat):
            results = [
                executable.step(key, {b.name: part[b.name] for _, b in graphs[i].of_kind("input")})
                for executable, part in zip(several, parts, strict=True)
            ]
            for output in results[0]:
                mean = np.mean([result[output] for result in results], axis=0, dtype=np.float32)
                for part, result in zip(parts, results, strict=True):
                    averaged = is_mean(output, mean.shape)
                    part[f"given/{i}/{output.removeprefix('found/')}"] = mean if averaged else result[output]
        for leaf, value in one.state().items():
            for executable in several:
                np.testing.assert_allclose(
                    executable.state()[leaf], value, rtol=2e-4, atol=2e-6, err_msg=leaf
                )
                np.testing.assert_array_equal(executable.state()[leaf], several[0].state()[leaf])
        td_errors = np.concatenate([result["td_error"] for result in results])
        np.testing.assert_allclose(td_errors, expected["td_error"], rtol=2e-4, atol=2e-5)


def test_there_is_a_phase_for_each_gradient_and_one_for_the_update() -> None:
    assert [len(phase_graphs(ALGORITHMS[name], 4, "full")) for name in ("dqn", "ddpg")] == [2, 3]
    first, last = phase_graphs(ALGORITHMS["dqn"], 4, "full")
    assert all(name.startswith("found/") for name in first.outputs)
    assert {"td_error", "losses/q"} <= set(last.outputs)
