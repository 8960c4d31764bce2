"""The runs of an iteration against the closed form of its design."""

from dataclasses import replace

from placerl.primitives.fpga.cycles import ppo
from placerl.primitives.fpga.cycles.ppo_accelerator import run_cycles, update_rows
from placerl.primitives.fpga.cycles.ppo_steps import DesignSteps
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram


def test_the_design_s_runs_add_up_to_its_steps() -> None:
    """In one dataflow a process takes the cycles of its steps; in the best dataflows a mini-batch takes no more."""
    policy, value = (NetworkProgram((11, 64, 64, outputs), 64, 8) for outputs in (3, 1))
    found = DesignSteps((policy, value), "tanh")
    one = {
        program: run_cycles((*program.forward, *program.training(0)), program) for program in (policy, value)
    }
    whole = max(one[policy] + update_rows(value), one[value] + update_rows(policy))
    assert 0.3 * whole < found.forward_cycles(64) + found.training_cycles(64) <= whole
    assert found.forward_cycles(64) <= max(
        run_cycles(program.forward, program) for program in (policy, value)
    )
    in_order = [found._process(policy, 64, process, "NS") for process in ppo.PROCESSES]
    assert sum(in_order) == one[policy]


def test_networks_run_on_units_at_the_same_time() -> None:
    """The forward pass takes as long as the longer one; at Adam a network waits for all of the other one's rows."""
    policy, value = (NetworkProgram((11, 64, 64, outputs), 1, 8) for outputs in (20, 1))
    both = DesignSteps((policy, value), "tanh")
    alone = [DesignSteps((program,), "tanh") for program in (policy, value)]
    assert both.forward_cycles(64) == max(one.forward_cycles(64) for one in alone)
    rows = [update_rows(replace(program, batch=64)) for program in (value, policy)]
    expected = [one.training_cycles(64) + waits for one, waits in zip(alone, rows, strict=True)]
    assert both.training_cycles(64) == max(expected)


def test_clipping_computes_the_gradients_twice() -> None:
    program = NetworkProgram((11, 64, 64, 3), 64, 8)
    plain, clips = (DesignSteps((replace(program, clips=each),), "relu") for each in (False, True))
    applied = plain.training_cycles(64) - plain._fewest(program, 64, ("BW",))
    assert clips.forward_cycles(64) == plain.forward_cycles(64)
    assert 1.9 * applied < clips.training_cycles(64) - plain.training_cycles(64) + applied < 2.3 * applied


def test_relu_takes_fewer_cycles_than_tanh() -> None:
    relu, tanh = (DesignSteps((NetworkProgram((11, 64, 64, 3), 64, 8),), name) for name in ("relu", "tanh"))
    assert relu.forward_cycles(64) < tanh.forward_cycles(64)
    assert relu.training_cycles(64) < tanh.training_cycles(64)
