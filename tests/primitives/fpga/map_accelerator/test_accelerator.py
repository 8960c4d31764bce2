"""MAP's accelerator in its RTL against its golden model: whole gradient steps, bit by bit, through its host port."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.map_accelerator.accelerator import MapAccelerator
from placerl.primitives.fpga.map_accelerator.described import networks_of
from placerl.primitives.fpga.map_accelerator.settings import NETWORKS, AcceleratorSettings, layers_of
from placerl.primitives.fpga.map_accelerator.timer import RUN_CYCLES, step_cycles
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.map_accelerator.accelerator_cases import first_weights, transitions
from tests.primitives.fpga.map_accelerator.golden import GoldenAccelerator, StepHyperparameters
from tests.primitives.fpga.map_accelerator.simulation import AcceleratorHost
from tests.primitives.fpga.resettable import Resettable, reset

CARTPOLE = AcceleratorSettings(layers_of(NETWORKS["cartpole"], 2))
SMALL = AcceleratorSettings(layers_of(NETWORKS["small"], 1), largest_batch=8, levels=2)
# A pipeline takes 3 cycles per sample, but gets one every 4 cycles.
IN_TURN = replace(SMALL, layers=layers_of((1, 2, 2), 2), pipelines=4, largest_batch=16)
DIVIDED = replace(SMALL, pipelines=2, banks=2, double=True)
# More transitions are stored than the six leaves in use of two trees of sixteen hold.
LEAVES_IN_USE = replace(SMALL, pipelines=2, banks=2, leaves=3)
# Weights are updated in parts of words.
ACTOR, CRITIC = networks_of("2-2-1,3-2-1", lanes="2/1,2/1", updates="1/1,1/1")
WITH_ACTOR = replace(SMALL, layers=CRITIC, actor=ACTOR, pipelines=2, banks=2)
# The targets come so much later than the outputs that these fill all queues on their way.
LATE_TARGETS = replace(SMALL, layers=layers_of((3, 2, 1), 2), actor=ACTOR, largest_batch=32)
# What `placerl explore map hopper-ddpg --device u200` chooses.
HOPPERS = networks_of("11-256-256-3,14-256-256-1", lanes="8/128/2,8/128/1", updates="2/4/1,1/4/1")
HOPPER = AcceleratorSettings(HOPPERS[1], actor=HOPPERS[0])
FIRST = StepHyperparameters(learning_rate=1e-2, tau=0.1, target_interval=2, epsilon=0.01)
SECOND = StepHyperparameters(learning_rate=1e-3, gamma=0.9, huber=False, alpha=1.0, beta=1.0)


def check_runs(
    settings: AcceleratorSettings,
    host: AcceleratorHost,
    transition_count: int,
    runs: Sequence[tuple[int, int, StepHyperparameters]],
) -> None:
    """Do runs of (steps, batch size, hyper-parameters), and compare all weights after each."""
    rng = np.random.default_rng(0)
    weights = first_weights(settings, rng)
    model = GoldenAccelerator(settings, weights)
    stored = transitions(settings, transition_count, rng)
    priorities = rng.integers(1, 1 << 18, transition_count)
    host.load(weights)
    host.insert(stored, priorities)
    model.insert(stored, priorities)
    host.simulation.step(20)
    assert host.registers.read("stored") == transition_count
    for steps, batch_size, hyper in runs:
        host.configure(batch_size, hyper)
        cycles = host.run(steps)
        if settings.banks == 1:
            assert cycles == steps * step_cycles(settings, batch_size) + RUN_CYCLES
        for _ in range(steps):
            model.step(batch_size, hyper)
        for target in (False, True):
            for found, layer in zip(host.weights(target=target), model.layers, strict=True):
                expected = layer.target if target else layer.weight
                np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    assert host.registers.read("finished_steps") == sum(steps for steps, _, _ in runs)
    assert host.registers.read("events") == 1


def check_that_sending_is_alone(settings: AcceleratorSettings, host: AcceleratorHost) -> None:
    """Weights are sent whole before a run that is asked for meanwhile, and before new ones are taken."""
    words, new = settings.weight_words, {"s_axis_weights": {"data": [0] * settings.weight_words}}
    new["s_axis_weights"]["last"] = new["s_axis_weights"]["data"]
    host.registers.write(send=1)
    expected = host.simulation.run({}, {"m_axis_weights": words}).outputs["m_axis_weights"]
    host.registers.write(steps=0, send=1, control=1)
    host.simulation.step(50)  # more than a run of no steps takes
    assert host.registers.read("status") == 1
    run = host.simulation.run(new, {"m_axis_weights": words}, ready={"m_axis_weights": [False, True]})
    np.testing.assert_array_equal(run.outputs["m_axis_weights"]["data"], expected["data"])
    assert run.input_cycles["s_axis_weights"].min() > run.output_cycles["m_axis_weights"].max()
    host.simulation.step(50)
    assert host.registers.read("status") == 0
    assert not any(layer.any() for layer in host.weights())


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(replace(SMALL, pipelines=2), id="two pipelines"),
        pytest.param(IN_TURN, id="in turn", marks=pytest.mark.long),
        pytest.param(DIVIDED, id="divided"),
        pytest.param(LEAVES_IN_USE, id="leaves in use"),
        pytest.param(WITH_ACTOR, id="with actor", marks=pytest.mark.long),
        pytest.param(LATE_TARGETS, id="late targets", marks=pytest.mark.long),
    ],
)
def test_gradient_steps_are_the_golden_models_bit_by_bit(settings: AcceleratorSettings) -> None:
    host = AcceleratorHost(interpreted(MapAccelerator(settings)), settings)
    check_runs(settings, host, 12, [(1, settings.largest_batch, FIRST), (2, 4, SECOND)])
    check_that_sending_is_alone(settings, host)


def packet(words: int) -> dict[str, np.ndarray]:
    """A packet of words."""
    return {"data": np.arange(words), "last": np.arange(words) == words - 1}


@pytest.mark.slow
def test_a_packet_of_a_wrong_length_is_flagged_and_the_next_begins_again() -> None:
    host = AcceleratorHost(interpreted(MapAccelerator(SMALL)), SMALL)
    transition, weights = SMALL.transition_words + 1, SMALL.weight_words

    def flags(port: str, words: int) -> bool:
        """Send a packet, and return whether it sets the flag."""
        host.simulation.run({port: packet(words)}, {})
        host.simulation.step(20)
        flagged = host.registers.read("events") & 2
        host.registers.write(events=2)
        return bool(flagged)

    assert flags("s_axis_weights", weights + 3)
    assert flags("s_axis_weights", 1)
    assert flags("s_axis_weights", weights - 1)
    assert not flags("s_axis_weights", weights)
    assert flags("s_axis_transitions", 1)
    assert flags("s_axis_transitions", transition - 1)
    check_runs(SMALL, host, 3, [(1, 2, FIRST)])
    assert flags("s_axis_transitions", transition + 1)
    assert not flags("s_axis_transitions", 2 * transition)
    assert host.registers.read("stored") == 6


@pytest.mark.slow
def test_new_weights_begin_the_interval_of_the_target_network() -> None:
    """With an interval of 2 the target network moves in the second step after the load, whatever was before it."""
    host, rng = AcceleratorHost(interpreted(MapAccelerator(SMALL)), SMALL), np.random.default_rng(3)
    weights = first_weights(SMALL, rng)
    host.insert(transitions(SMALL, 12, rng), rng.integers(1, 1 << 18, 12))
    host.configure(8, FIRST)

    def moved() -> bool:
        """Whether a gradient step moves the target network from the loaded weights."""
        host.run()
        found = host.weights(target=True)
        return not all(np.array_equal(one, other) for one, other in zip(found, weights, strict=True))

    host.load(weights)
    assert not moved()
    host.load(weights)
    assert [moved(), moved()] == [False, True]

    def sent(bits: int) -> list[int]:
        host.registers.write(send=bits)
        run = host.simulation.run({}, {"m_axis_weights": SMALL.weight_words})
        beats = run.outputs["m_axis_weights"]
        assert isinstance(beats, Mapping)
        return list(beats["data"])

    assert sent(3) == sent(2) != sent(1), "those of the target network, if both are asked for"


@pytest.mark.slow
@pytest.mark.long
def test_a_step_of_cartpoles_network_is_the_golden_models_bit_by_bit() -> None:
    host = AcceleratorHost(interpreted(MapAccelerator(CARTPOLE)), CARTPOLE)
    check_runs(CARTPOLE, host, 48, [(1, 32, FIRST)])
    check_that_sending_is_alone(CARTPOLE, host)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(2700)
def test_a_step_of_hoppers_networks_is_the_golden_models_bit_by_bit() -> None:
    """74,577 cycles take seconds; to build the simulation takes six minutes of processor time."""
    host = AcceleratorHost(simulation.compiled(MapAccelerator(HOPPER)), HOPPER)
    check_runs(HOPPER, host, 64, [(1, 32, FIRST)])


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="banks: found 3; allowed: a power of two"):
        replace(SMALL, banks=3)
    with pytest.raises(ValueError, match="leaves: found 17; allowed: 1 to 16, or 0 for all"):
        replace(SMALL, leaves=17)
    with pytest.raises(
        ValueError, match="actor: found 3 numbers of a state and an action; allowed: the crit"
    ):
        replace(WITH_ACTOR, layers=layers_of((4, 2, 1), 1))
    with pytest.raises(ValueError, match=r"^layers: found 2 outputs; allowed with an actor: 1"):
        replace(WITH_ACTOR, layers=layers_of((3, 2, 2), 1))
    with pytest.raises(ValueError, match=r"^double: found True; allowed with an actor: False"):
        replace(WITH_ACTOR, double=True)
    with pytest.raises(ValueError, match="found 8 outputs before 9 inputs"):
        AcceleratorSettings((LayerShape(4, 8, 1), LayerShape(9, 2, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("banks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_run_after_a_reset_is_as_the_first(banks: int) -> None:
    settings = AcceleratorSettings(
        layers_of(NETWORKS["small"], 1), largest_batch=8, levels=2, banks=banks, pipelines=banks
    )
    rng = np.random.default_rng(banks)
    weights, stored = first_weights(settings, rng), transitions(settings, 12, rng)
    priorities = rng.integers(1, 1 << 18, 12)
    model = GoldenAccelerator(settings, weights)
    model.insert(stored, priorities)
    for _ in range(2):
        model.step(8, FIRST)
    host = AcceleratorHost(interpreted(Resettable(MapAccelerator(settings))), settings)
    for _ in range(2):
        host.load(weights)
        host.insert(stored, priorities)
        host.simulation.step(20)
        host.configure(8, FIRST)
        host.run(2)
        for found, layer in zip(host.weights(), model.layers, strict=True):
            np.testing.assert_array_equal(found.view(np.uint32), layer.weight.view(np.uint32))
        # The reset comes within a step, when gradients of some samples are added and the tree has requests.
        host.registers.write(steps=2, control=1)
        host.simulation.step(150)
        assert host.registers.read("status") == 1
        reset(host.simulation)
        assert host.registers.read("stored") == host.registers.read("status") == 0
