"""PPO's accelerator against its golden model, bit by bit: own networks, one network on both units, every dataflow."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import ppo_accelerator as model
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import clip_scale
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram
from placerl.primitives.fpga.ppo_accelerator.top import sizes_for
from placerl.primitives.fpga.simulation.ports import columns
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.ppo_accelerator.golden import GoldenNetwork
from tests.primitives.fpga.ppo_accelerator.simulation import SimulatedAccelerator, row_items
from tests.primitives.fpga.ppo_accelerator.training_step import Trained, check_step, random_weights

SIDE = 2
POLICY, VALUE = (3, 4, 2), (3, 3, 1)


def programs(dataflows: tuple[str, str, str], batch: int = 5) -> list[NetworkProgram]:
    return [NetworkProgram(sizes, batch, SIDE, dataflows) for sizes in (POLICY, VALUE)]


@cache
def accelerator() -> SimulatedAccelerator:
    options = {"accumulator_depth": 16, "steps": 8}
    return SimulatedAccelerator(sizes_for(*programs(("NS", "NS", "NS")), **options), start=interpreted)


def loaded(rng: np.random.Generator, dataflows: tuple[str, str, str], batch: int = 5) -> list[Trained]:
    found = []
    for number, program in enumerate(programs(dataflows, batch)):
        weights = random_weights(rng, program)
        accelerator().load(number, program, weights)
        found.append(Trained(number, GoldenNetwork.of(program, weights), (1e-2, 2e-2)[number]))
    return found


@pytest.mark.parametrize("dataflows", [("NS", "NS", "NS"), ("IS", "WS", "IS")])
def test_two_networks_train_bit_by_bit(dataflows: tuple[str, str, str]) -> None:
    """Each network takes the model's cycles; while both train, their updates wait for each other."""
    networks = loaded(np.random.default_rng(1), dataflows)
    forward, training = check_step(accelerator(), networks, np.random.default_rng(3), 1)
    models = [each.golden.program for each in networks]
    for number, program in enumerate(models):
        assert forward[number] == model.run_cycles(program.forward, program)
        alone = model.run_cycles(program.training(0), program)
        assert alone <= training[number] <= alone + model.update_rows(models[1 - number])


def test_both_units_share_the_network_that_trains_longer() -> None:
    """The second step begins with moments that are not 0."""
    rng, longer = np.random.default_rng(2), 1
    networks = loaded(rng, ("WS", "IS", "WS"), batch=3)
    check_step(accelerator(), networks, rng, 1)
    rest = networks[longer]
    rest.shared = True
    forward, training = check_step(accelerator(), [rest], rng, 2)
    program = rest.golden.program
    assert forward[longer] == model.run_cycles(program.forward, program)
    assert training[longer] == model.run_cycles(program.training(0), program)
    # The other network is as it was.
    other = networks[1 - longer]
    for found, expected in zip(accelerator().weights(other.number), other.golden.weights, strict=True):
        np.testing.assert_array_equal(found, expected)
    check_reads_during_a_shared_run(rest, other)


@pytest.mark.slow
def test_gradients_are_clipped_bit_by_bit() -> None:
    """Two networks that are clipped, then one on both units, in dataflows that leave parts of blocks unwritten.

    A mini-batch takes the model's cycles: of the steps that measure, and of those that apply.
    """
    options = {"accumulator_depth": 16, "steps": 16, "clips": True}
    host = SimulatedAccelerator(sizes_for(*programs(("NS", "NS", "NS")), **options), start=interpreted)
    rng, networks = np.random.default_rng(4), []
    for number, dataflow in enumerate(("WS", "IS")):
        program = replace(programs(("NS", "NS", dataflow))[number], clips=True)
        weights = random_weights(rng, program)
        host.load(number, program, weights)
        networks.append(Trained(number, GoldenNetwork.of(program, weights), 1e-2))
    _, training = check_step(host, networks, rng, 1, clip=0.01)
    for number, each in enumerate(networks):
        program, other = each.golden.program, networks[1 - number].golden.program
        alone = model.run_cycles((*program.training(0), *program.updates(0)), program)
        assert alone <= training[number] <= alone + 2 * model.update_rows(other)
    rest = networks[0]
    rest.shared = True
    _, training = check_step(host, [rest], rng, 2, clip=1e6)
    program = rest.golden.program
    assert training[0] == model.run_cycles((*program.training(0), *program.updates(0)), program)


def test_a_norm_above_the_largest_one_is_scaled_to_it() -> None:
    assert clip_scale([3.0, 6.0, 0.0, 0.0], 1.5) == pytest.approx(0.5)
    assert clip_scale([0.25, 0.0, 0.0, 0.0], 1.5) == 1


def check_reads_during_a_shared_run(rest: Trained, other: Trained) -> None:
    """A slow host reads the other network's weights meanwhile: a row stays until it is taken."""
    program, weights = rest.golden.program, other.golden.weights[0]
    rows = row_items(weights, SIDE, 0)
    count = len(rows["row"])
    reads = {"owner": np.full(count, other.number), "block": rows["block"], "row": rows["row"]}
    sent = program.sizes[-1] * program.batch_blocks
    run = accelerator().simulation.run(
        {
            f"runs_{rest.number}": columns([{"first": 0, "count": len(program.forward), "shared": 1}]),
            "reads": reads,
        },
        {f"finished_{rest.number}": 1, "outputs_0": sent, "outputs_1": sent, "rows": count},
        gaps={"reads": [5] * count},
        ready={"rows": [False] * 10 + [True]},
    )
    assert run.output_cycles["rows"].max() < run.output_cycles[f"finished_{rest.number}"][0]
    np.testing.assert_array_equal(run.outputs["rows"], rows["words"])
    # The first read is taken in the cycle in which a run on both units is asked for: the run begins after it.
    run = accelerator().simulation.run(
        {
            f"runs_{rest.number}": columns([{"first": 0, "count": len(program.forward), "shared": 1}]),
            "reads": {name: values[:1] for name, values in reads.items()},
        },
        {f"finished_{rest.number}": 1, "outputs_0": sent, "outputs_1": sent, "rows": 1},
        ready={"rows": [False] * 10 + [True]},
    )
    assert run.input_cycles[f"runs_{rest.number}"][0] >= run.output_cycles["rows"][0]
    np.testing.assert_array_equal(run.outputs["rows"], rows["words"][:1])
