"""PPO's whole accelerator, through registers and streams: Hopper 64-64 at P = 8, and small networks with ReLU."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import ppo_accelerator as model
from placerl.primitives.fpga.learner_pipeline.update_unit import corrections
from placerl.primitives.fpga.ppo_accelerator.accelerator import HostMemory
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram
from placerl.primitives.fpga.ppo_accelerator.top import sizes_for
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.ppo_accelerator.golden import GoldenNetwork
from tests.primitives.fpga.ppo_accelerator.hopper import NETWORKS, SIZES, HopperStep
from tests.primitives.fpga.ppo_accelerator.hosted_simulation import HostedAccelerator
from tests.primitives.fpga.ppo_accelerator.training_step import (
    Trained,
    assert_same_bits,
    check_step,
    random_weights,
)

SIDE, SAMPLES = 8, 16


@pytest.mark.slow
def test_networks_with_relu_train_bit_by_bit() -> None:
    """A step of both networks at once, then one of the first network, with two hidden layers, on both units.

    In the second step the host is not always ready for rows.
    The samples fill no whole number of blocks: what is beyond them must not reach the gradient of the biases.
    """
    rng = np.random.default_rng(16)
    programs = [NetworkProgram(sizes, 5, 2, ("NS", "WS", "IS")) for sizes in ((3, 4, 3, 2), (3, 3, 1))]
    sizes = sizes_for(*programs, relu=True, accumulator_depth=16, steps=16)
    host, networks = HostedAccelerator(sizes, start=interpreted), []
    for number, (program, rate) in enumerate(zip(programs, (1e-2, 2e-2), strict=True)):
        weights = random_weights(rng, program)
        host.load(number, program, weights)
        networks.append(Trained(number, GoldenNetwork.of(program, weights, "relu"), rate))
    forward, training = check_step(host, networks, rng, 1)
    for each in networks:
        program, other = each.golden.program, networks[1 - each.number].golden.program
        assert forward[each.number] == model.run_cycles(program.forward, program, "relu")
        alone = model.run_cycles(program.training(0), program, "relu")
        assert alone <= training[each.number] <= alone + model.update_rows(other, "relu")
        # In each layer ReLU is seen on both sides of 0.
        for hidden in each.passes[0].activations[1:]:
            assert 0.4 < (hidden[:-1] > 0).mean() < 0.8
    networks[0].shared, host.ready = True, [False, True, False]
    check_step(host, networks[:1], rng, 2)


@pytest.mark.slow
def test_a_host_clips_gradients_through_registers() -> None:
    rng, program = np.random.default_rng(5), NetworkProgram((3, 4, 2), 5, 2, clips=True)
    host = HostedAccelerator(
        sizes_for(program, clips=True, accumulator_depth=16, steps=16), start=interpreted
    )
    weights = random_weights(rng, program)
    host.load(0, program, weights)
    check_step(host, [Trained(0, GoldenNetwork.of(program, weights), 1e-2)], rng, 1, clip=0.01)


@pytest.mark.slow
def test_a_packet_of_a_wrong_length_is_flagged() -> None:
    """No row, a part of a block, and more rows than the memory has; then one that is right."""
    program = NetworkProgram((1, 1), 1, 2)
    host = HostedAccelerator(sizes_for(program, accumulator_depth=16, steps=2), start=interpreted)
    host.load(0, program, [np.ones((1, 2), np.float32)])
    blocks, weights = host.sizes.weight_blocks, HostMemory.WEIGHTS.value << 1
    for rows, memory, flagged in (
        (0, weights, True),
        (1, weights, True),
        (2 * blocks + 2, weights, True),
        (2, HostMemory.DELTAS.value << 1 | 1, False),
        (2, 7 << 1, True),
        (2 * blocks, weights, False),
    ):
        data = np.full(rows + 1, np.uint64(0x40000000_40000000))  # twos
        data[0] = memory
        packet = {"data": data, "last": np.arange(rows + 1) == rows}
        host.simulation.run({"s_axis_rows": packet}, {})
        assert bool(host.registers.read("events") & 2) == flagged
        host.registers.write(events=2)
    np.testing.assert_array_equal(host.weights(0), [[[2, 2]]])


@pytest.mark.slow
def test_a_run_of_no_steps_ends_at_once() -> None:
    program = NetworkProgram((1, 1), 1, 2)
    host = HostedAccelerator(sizes_for(program, accumulator_depth=16, steps=2), start=interpreted)
    for runs in (1, 2, 3, 1 | 4):  # of each network, of both, and on both units
        host.registers.write(events=1, runs=runs, steps_0=0, steps_1=0, control=1)
        host.simulation.step(20)
        found = [host.registers.read(name) for name in ("status", "events", "cycles_0", "cycles_1")]
        assert found == [0, 1, 0, 0]
    weights = [np.ones((1, 2), np.float32)]
    host.load(0, program, weights)
    np.testing.assert_array_equal(host.weights(0), weights)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_training_step_of_hopper_bit_by_bit() -> None:
    """Both networks at once; then the policy on both units, each with half of the samples."""
    step = HopperStep.of(SAMPLES)
    programs = [NetworkProgram(SIZES[name], SAMPLES, SIDE, ("NS", "IS", "WS")) for name in NETWORKS]
    host = HostedAccelerator(sizes_for(*programs, accumulator_depth=128, steps=16))
    golden = []
    for number, (name, program) in enumerate(zip(NETWORKS, programs, strict=True)):
        weights = step.weights(step.state, name)
        host.load(number, program, weights)
        host.write_inputs(number, program, step.inputs)
        golden.append(GoldenNetwork.of(program, weights))
    outputs, forward_cycles = host.forward(0, 1)
    for number, (name, program) in enumerate(zip(NETWORKS, programs, strict=True)):
        passed = golden[number].forward(step.inputs)
        assert_same_bits(outputs[number], passed.output)
        assert forward_cycles[number] == model.run_cycles(program.forward, program)
        deltas = step.deltas(name, outputs[number])
        host.write_deltas(number, program, deltas)
        gradients = golden[number].gradients(passed, deltas)
        golden[number].update([gradients], *corrections(step.rate(name), 1))
    rates = [step.rate(name) for name in NETWORKS]
    training_cycles = host.train(0, 1, learning_rates=rates, step=1)
    for number, (name, program) in enumerate(zip(NETWORKS, programs, strict=True)):
        alone = model.run_cycles(program.training(0), program)
        waits = training_cycles[number] - alone
        assert 0 <= waits <= model.update_rows(programs[1 - number])
        for found, expected, ppos in zip(
            host.weights(number), golden[number].weights, step.weights(step.new_state, name), strict=True
        ):
            assert_same_bits(found, expected)
            np.testing.assert_allclose(found, ppos, rtol=0, atol=0.01 * step.rate(name))

    # PPO 3.3: the value network is done, and both units train the policy.
    half = NetworkProgram(SIZES["policy"], SAMPLES // 2, SIDE, ("WS", "NS", "IS"))
    network = GoldenNetwork(half, golden[0].weights, golden[0].means, golden[0].squares)
    host.restep(0, half)
    parts = [step.inputs[:, :8], step.inputs[:, 8:]]
    for unit, inputs in enumerate(parts):
        host.write_inputs(unit, half, inputs)
    outputs, cycles = host.forward(0, shared=True)
    assert cycles[0] == model.run_cycles(half.forward, half)
    deltas = step.deltas("policy", np.concatenate(outputs, axis=1))
    gradients = []
    for unit, inputs in enumerate(parts):
        passed = network.forward(inputs)
        assert_same_bits(outputs[unit], passed.output)
        own = np.ascontiguousarray(deltas[:, 8 * unit : 8 * unit + 8])
        host.write_deltas(unit, half, own)
        gradients.append(network.gradients(passed, own))
    network.update(gradients, *corrections(rates[0], 2))
    cycles = host.train(0, learning_rates=rates[:1], step=2, shared=True)
    assert cycles[0] == model.run_cycles(half.training(0), half)
    for found, expected in zip(host.weights(0), network.weights, strict=True):
        assert_same_bits(found, expected)
