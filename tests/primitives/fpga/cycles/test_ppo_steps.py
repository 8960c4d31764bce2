"""The runs of an iteration against the closed form of its design."""

from dataclasses import replace

from primitives.fpga.cycles import ppo
from primitives.fpga.cycles.ppo_accelerator import iteration_cycles, run_cycles, update_rows
from primitives.fpga.cycles.ppo_steps import DesignSteps
from primitives.fpga.ppo_accelerator.program import NetworkProgram


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


def test_networks_run_on_units_at_the_same_time() -> None:
    """The forward pass takes as long as the longer one; at Adam a network waits for all of the other one's rows."""
    policy, value = (NetworkProgram((11, 64, 64, outputs), 1, 8) for outputs in (20, 1))
    both = DesignSteps((policy, value))
    alone = [DesignSteps((program,)) for program in (policy, value)]
    assert both.forward_cycles(64) == max(one.forward_cycles(64) for one in alone)
    rows = [update_rows(replace(program, batch=64)) for program in (value, policy)]
    expected = [one.training_cycles(64) + waits for one, waits in zip(alone, rows, strict=True)]
    assert both.training_cycles(64) == max(expected)
