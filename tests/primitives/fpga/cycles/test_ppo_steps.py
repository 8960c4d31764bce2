"""The runs of an iteration against PPO's Equations 6 to 8 and arithmetic by hand."""

from dataclasses import replace

import pytest

from primitives.fpga.cycles import gemm, ppo
from primitives.fpga.cycles.networks import PPO_NETWORKS, mlp
from primitives.fpga.cycles.ppo_accelerator import iteration_cycles, run_cycles
from primitives.fpga.cycles.ppo_steps import DesignSteps, ProductSteps
from primitives.fpga.ppo_accelerator.program import NetworkProgram


@pytest.mark.parametrize("product_cycles", [gemm.ppo_cycles, gemm.core_cycles])
@pytest.mark.parametrize("name", PPO_NETWORKS)
def test_they_add_up_to_the_equations(name: str, product_cycles: ppo.ProductCycles) -> None:
    """Of one network, Adam aside: K N T / M updates, and T forward passes of N."""
    layers, iteration = PPO_NETWORKS[name], ppo.PpoIteration(agents=4, steps=32, minibatch=16, epochs=3)
    steps = ProductSteps((layers,), side=16, product_cycles=product_cycles)
    expected = ppo.iteration_cycles(layers, iteration, side=16, product_cycles=product_cycles)
    assert steps.forward_cycles(4) * 32 == expected.inference
    training = steps.training_cycles(16) - steps.adam_cycles(layers)
    assert (steps.forward_cycles(16) + training) * 24 == expected.training


def test_the_design_s_runs_add_up_to_its_iteration() -> None:
    """With one dataflow the closed form's own; the best dataflows take no more."""
    iteration = ppo.PpoIteration(agents=4, steps=32, minibatch=64, epochs=3)
    programs = tuple(NetworkProgram((11, 64, 64, outputs), 1, 8) for outputs in (3, 1))
    found = DesignSteps(programs)
    one = iteration_cycles(programs, iteration, link_bytes_per_cycle=64)
    updates = iteration.updates
    assert found.forward_cycles(4) * 32 <= one.inference
    whole = (found.forward_cycles(64) + found.training_cycles(64)) * updates
    assert 0.3 * one.training < whole <= one.training
    in_order = [found._process(programs[0], 64, process, "NS") for process in ppo.PROCESSES]
    alone = replace(programs[0], batch=64)
    assert sum(in_order) == run_cycles((*alone.forward, *alone.training(0)), alone)


def test_adam_takes_the_weights_and_biases_p_at_a_time() -> None:
    """11 x 64 + 64 + 64 x 3 + 3 = 963 words: 61 of 16, and the latency."""
    steps = ProductSteps((mlp(11, 64, 3),), side=16, adam_latency=40)
    assert steps.adam_cycles(mlp(11, 64, 3)) == 61 + 40


def test_networks_run_on_units_of_their_own() -> None:
    policy, value = mlp(11, 64, 64, 3), mlp(11, 64, 64, 1)
    both = ProductSteps((policy, value), side=16)
    alone = [ProductSteps((layers,), side=16) for layers in (policy, value)]
    assert both.forward_cycles(64) == max(one.forward_cycles(64) for one in alone)
    assert both.training_cycles(64) == max(one.training_cycles(64) for one in alone)
