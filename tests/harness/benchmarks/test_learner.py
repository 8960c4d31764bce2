"""The learner's bench: its own eager baseline is right, its counts are exact, its lines say what was measured."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from harness import workload
from harness.benchmarks import learner as bench
from harness.benchmarks.learner import Cell, EagerDDPG
from harness.cases.learners import random_batch
from harness.measure import Protocol, Timing, measure
from harness.runtime.compose import algorithm_of
from primitives import learner
from primitives.learner.in_place import InPlaceUpdates


def test_the_eager_baseline_takes_the_same_steps():
    item = workload.load("cartpole-ddpg")
    eager, ours = EagerDDPG(item), learner.create(algorithm_of(item), batch_size=32, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        batch = random_batch(item, 32, rng)
        np.testing.assert_allclose(eager.step(batch), ours.step(batch).td_errors, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cartpole-ddpg", "hopper-ddpg", "swimmer-ddpg"])
def test_macs_of_a_step_are_those_that_pytorch_counts(name):
    item = workload.load(name)
    algorithm = replace(algorithm_of(item), updates=InPlaceUpdates())
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    batch = {key: torch.zeros(shape, dtype=dtype) for key, (shape, dtype) in algorithm.columns(4).items()}
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        algorithm.gradient_step(state, batch, {})
    assert counter.get_total_flops() == 2 * 4 * bench.step_macs(item)


@pytest.mark.parametrize("name", ["cartpole-ddpg", "cartpole-dqn", "cartpole-ppo"])
def test_every_side_of_a_cell_passes_its_check(name):
    cases = list(bench.sides(workload.load(name), 32, compiled=False))
    timings = measure(cases, Protocol(rounds=1, block_s=1e-6, warm_up_s=0))
    assert {"pure", "tuned"} <= timings.keys()
    assert ("eager" in timings) == (name == "cartpole-ddpg")
    assert not {side: timing.reason for side, timing in timings.items() if timing.status == "failed"}


def test_a_line_compares_with_the_best_of_pytorch():
    def timing(name, *samples_s):
        return Timing(name, "ok", "", samples_s, float(np.median(samples_s)))

    timings = {
        "tuned": timing("tuned", *[2e-3] * 20),
        "eager": timing("eager", *[4e-3] * 20),
        "native": timing("native", *[1e-3] * 20),
        "opencl": Timing("opencl", "failed", "check: no device"),
    }
    cell = Cell("a cell", "cartpole-ddpg", 32)
    result = bench.line(cell, timings, peak_gflops=100)
    assert result["best_pytorch"] == "tuned"
    sides = result["sides"]
    assert sides["native"]["ratio"] == [2, 2, 2]
    assert sides["eager"]["ratio"] == [0.5, 0.5, 0.5]
    assert sides["native"]["gradient_steps_per_s"] == 1000
    macs = bench.step_macs(workload.load("cartpole-ddpg"))
    assert sides["native"]["share_of_peak"] == pytest.approx(2 * macs * 32 * 1000 / 100e9)
    assert sides["opencl"] == {"status": "failed", "reason": "check: no device"}
    assert bench.table([result], 1).row_count == 4
