"""The graph of each gradient of a step computes that gradient, for the state that it is given."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from placerl.harness import workloads
from placerl.harness.runtime.learners.gradient_graphs import PartGradients, gradient_graphs
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.algorithms import tree
from placerl.primitives.algorithms.updates import Updates
from placerl.primitives.graph.interpreter import ReferenceExecutable

SIZE = 6
AVAILABLE = {status.name for status in learner.backends() if status.available}


class Recorded(Updates):
    """Keeps every gradient, and its state, of a step."""

    def __init__(self):
        self.found = []

    def gradients(self, loss, parameters, batch):
        result = super().gradients(loss, parameters, batch)
        self.found.append(result)
        return result


def random_batch(algorithm, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    batch = {}
    for name, (shape, dtype) in algorithm.columns(size).items():
        if dtype is torch.int64:
            batch[name] = torch.randint(0, algorithm.action_size, shape, generator=generator)
        else:
            batch[name] = torch.rand(shape, generator=generator, dtype=dtype)
    return batch, algorithm.draw(size, generator)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cartpole-dqn", {"full": 1, "online": 1}),
        ("hopper-ddpg", {"full": 2}),
        ("pendulum-td3", {"full": 2, "critic": 1}),
        ("pendulum-sac", {"full": 2}),
    ],
)
def test_a_step_is_cut_at_each_of_its_gradients(name, counts):
    algorithm = algorithm_of(workloads.load(name))
    found = {variant: len(gradient_graphs(algorithm, 2, variant)) for variant in algorithm.variants}
    assert found == counts


@pytest.mark.usefixtures("simulated_cycles")
@pytest.mark.parametrize("backend", ["opencl", "fpga"])
@pytest.mark.parametrize("name", ["cartpole-dqn", "pendulum-sac"])
def test_a_part_s_gradients_are_those_of_the_algorithm(backend, name):
    if backend not in AVAILABLE:
        pytest.skip(f"needs the learner backend {backend}")
    algorithm = algorithm_of(workloads.load(name))
    algorithm = replace(algorithm, network=replace(algorithm.network, hidden=(16,)))
    state = algorithm.initialise(torch.Generator().manual_seed(1))
    batch, draws = random_batch(algorithm, SIZE)
    variant, recorded = algorithm.variants[0], Recorded()
    after = replace(algorithm, updates=recorded).gradient_step(state, batch, draws, variant).state
    accelerator = PartGradients(algorithm, backend, None)
    assert len(recorded.found) == (1 if name == "cartpole-dqn" else 2)
    states = [state]
    if name == "pendulum-sac":  # the second gradient is that of the updated critics
        states.append(state._replace(critics=after.critics))
    for number, (gradients, loss, rest) in enumerate(recorded.found):
        found = accelerator.gradients(variant, number, states[number], batch, draws)
        assert found[0].keys() == gradients.keys()
        for key, value in gradients.items():
            np.testing.assert_allclose(found[0][key], value, rtol=1e-2, atol=1e-4)
        assert found[1].item() == pytest.approx(loss.item(), rel=1e-3, abs=1e-4)
        for mine, theirs in zip(leaves(found[2]), leaves(rest), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3)
        weights, sent_back = accelerator.sent_bytes(variant, number, SIZE)
        assert sent_back == sum(value.nbytes for value in gradients.values())
        assert weights >= sent_back
        assert weights < sum(leaf.nbytes for leaf in tree.flatten(states[number]).values())
    assert (accelerator.simulated_s > 0) == (backend == "fpga")


def leaves(rest):
    return [rest] if isinstance(rest, torch.Tensor) else list(rest)


def test_a_graph_reads_what_its_gradient_depends_on_and_changes_nothing():
    algorithm = algorithm_of(workloads.load("cartpole-dqn"))
    (found,) = gradient_graphs(algorithm, 4, "online")
    networks = {leaf.split("/")[1] for leaf in found.leaves}
    assert networks == {"q", "target_q"}
    executable = ReferenceExecutable({"only": found.graph})
    state = tree.flatten(algorithm.initialise(torch.Generator().manual_seed(1)))
    for name, leaf in state.items():
        executable.write_state(f"state/{name}", leaf.numpy())
    batch, _ = random_batch(algorithm, 4)
    executable.step("only", {f"batch/{name}": column.numpy() for name, column in batch.items()})
    for name, leaf in state.items():
        np.testing.assert_array_equal(executable.state()[f"state/{name}"], leaf)


def test_a_backend_without_such_graphs_is_refused():
    algorithm = algorithm_of(workloads.load("cartpole-dqn"))
    with pytest.raises(ValueError, match="backend: found native; allowed: opencl, fpga"):
        PartGradients(algorithm, "native", None)
