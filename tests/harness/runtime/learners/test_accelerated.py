"""An accelerator and threads together take the steps of one learner, and their seconds are those of parallel work."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from placerl.harness import workloads
from placerl.harness.runtime.learners import accelerated
from placerl.harness.runtime.learners.accelerated import (
    AcceleratedLearner,
    SimulatedAcceleratedLearner,
    SimulatedUpdates,
)
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.learner.torch.torch_backend import TorchLearner

SIZE = 12
AVAILABLE = {status.name for status in learner.backends() if status.available}
KINDS = {
    "opencl": AcceleratedLearner,
    "fpga": partial(SimulatedAcceleratedLearner, links_s=lambda sent, back: 0.0),
}


def small(name):
    algorithm = algorithm_of(workloads.load(name))
    return replace(algorithm, network=replace(algorithm.network, hidden=(16,)))


def random_batch(algorithm, rng):
    return {
        name: rng.integers(0, algorithm.action_size, shape)
        if dtype is torch.int64
        else rng.random(shape, np.float32)
        for name, (shape, dtype) in algorithm.columns(SIZE).items()
    }


@pytest.mark.usefixtures("simulated_cycles")
@pytest.mark.parametrize("backend", KINDS)
@pytest.mark.parametrize("name", ["cartpole-dqn", "hopper-ddpg"])
def test_an_accelerator_and_threads_take_the_steps_of_one_learner(backend, name):
    if backend not in AVAILABLE:
        pytest.skip(f"needs the learner backend {backend}")
    algorithm, rng = small(name), np.random.default_rng(0)
    divided = KINDS[backend](algorithm, backend, batch_size=SIZE, trainers=2, seed=1)
    whole = TorchLearner(algorithm, batch_size=SIZE, seed=1)
    for parts in ((), (8, 4), (6, 3, 3), (8, 4)):
        divided.updates.parts = parts
        batch = random_batch(algorithm, rng)
        weights = batch.pop("weight")
        mine, theirs = (made.step(batch, weights) for made in (divided, whole))
        np.testing.assert_allclose(mine.td_errors, theirs.td_errors, rtol=1e-2, atol=1e-3)
        for loss, value in theirs.losses.items():
            assert mine.losses[loss] == pytest.approx(value, rel=1e-2, abs=1e-3)
    for key, value in whole.parameters().items():
        np.testing.assert_allclose(divided.parameters()[key], value, rtol=2e-2, atol=2e-3)
    updates = divided.updates
    assert min(updates.learner_s, updates.trainers_s, updates.synchronisation_s) > 0
    divided.close()


class Accelerator:
    """Takes 2 s for a sample, by its own clock."""

    def __init__(self):
        self.simulated_s, self.prepared = 0.0, []

    def prepare(self, size):
        self.prepared.append(size)

    def sent_bytes(self, variant, number, size):
        return 100, 30

    def gradients(self, variant, number, state, batch, draws):
        self.simulated_s += 2.0 * len(batch["x"])
        return {"slope": torch.tensor(float(number))}, torch.tensor(1.0), ()


def own_time(seconds):
    """Return a function that calls work, and says that it took the next of these seconds."""
    told = iter(seconds)
    return lambda work: (work(), next(told))


@pytest.mark.parametrize(
    ("parts", "own_s", "learner_s", "trainers_s", "synchronisation_s", "gradients_s"),
    [
        # 8 samples take 16 s, and the link 13 s; `own_s` begins with compiling and ends with the whole call.
        (
            (),
            (
                3.0,
                40.0,
            ),
            29.0,
            0.0,
            0.0,
            29.0,
        ),
        # 4 samples take 8 s; trainers 5 and 25 s, putting together 0.5 s
        ((4, 2, 2), (3.0, 5.0, 25.0, 0.5, 40.0), 21.0, 25.0, 4.5, 25.5),
        ((6, 2), (3.0, 5.0, 0.5, 40.0), 25.0, 5.0, 0.5, 25.5),
    ],
)
def test_in_virtual_time_accelerator_and_threads_work_in_parallel(
    monkeypatch, parts, own_s, learner_s, trainers_s, synchronisation_s, gradients_s
):
    monkeypatch.setattr(accelerated, "own_time", own_time(own_s))
    accelerator = Accelerator()
    updates = SimulatedUpdates(2, accelerator, lambda sent, back: (sent + back) / 10)
    updates.parts = parts
    batch = {"x": torch.ones(8)}
    updates.begin("full", {}, batch, {})
    assert accelerator.prepared == [parts[0] if parts else 8]
    updates.gradients(
        lambda parameters, batch: ((parameters["slope"] * batch["x"]).mean(), ()),
        {"slope": torch.tensor(2.0)},
        batch,
    )
    assert updates.learner_s == learner_s
    assert updates.trainers_s == trainers_s
    assert updates.synchronisation_s == synchronisation_s
    assert updates.gradients_s == gradients_s
    assert updates.here_s == 43.0
    updates.close()


@pytest.mark.usefixtures("simulated_cycles")
def test_a_step_in_virtual_time_takes_its_gradients_and_the_host_s_update():
    if "fpga" not in AVAILABLE:
        pytest.skip("needs the learner backend fpga")
    algorithm = small("cartpole-dqn")
    divided = SimulatedAcceleratedLearner(
        algorithm, "fpga", batch_size=SIZE, trainers=1, links_s=lambda sent, back: 1000.0
    )
    batch = random_batch(algorithm, np.random.default_rng(0))
    divided.step(batch, batch.pop("weight"))
    assert 1000 < divided.simulated_s < 1010
    assert divided.updates.gradients_s < divided.simulated_s, "the update is the host's work"
    divided.close()
