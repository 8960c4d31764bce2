"""A gradient step on MAP's learner pipeline (MAP IV-B3, Fig. 3): which passes it takes, on how many lanes, how long.

The systolic core (`fpga_backend`) does one product after the other; here every layer has units of its own, and the
samples of a batch stream through them. MAP has it for DQN and DDPG (Table VI):

| algorithm | pass | targets | forward | backward | trained |
|---|---|---|---|---|---|
| dqn | q | target network | q | q | q |
| ddpg | critic | target actor, target critic | critic | critic | critic |
| ddpg | actor | | actor, critic | critic, actor | actor |

Passes follow each other, as the actor's needs the new critic; both use the same units of the critic. (Double DQN's
greedy action goes through the network beside the target network: units of its own, no cycles.) Target networks move
while their weights are written. Cycles are `simulated`: `fpga.learner_pipeline.timer`, each distinct size once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from primitives.algorithms import Algorithm
from primitives.algorithms.networks import Network
from primitives.fpga.cycles.learner import Pass, difference_terms, map_cycles
from primitives.fpga.devices.catalogue import Device
from primitives.fpga.learner_pipeline.layer_shape import LayerShape

ALGORITHMS = ("dqn", "ddpg")
MULTIPLIER_DSPS = 4  # of 32 x 32 bits, as Yosys maps it on UltraScale+
ADAM_DSPS = 14  # of a lane of Adam: seven products of float32 numbers of two each
MOST_PIPELINES = 32

Sizes = tuple[int, ...]
"""Neurons of a network's layers, inputs first."""


def refusal(algorithm: Algorithm) -> str:
    """Why MAP's pipeline does not run an algorithm; empty when it does."""
    if algorithm.name not in ALGORITHMS:
        return f"a learner pipeline for {algorithm.name}: MAP (Table VI) has those of {', '.join(ALGORITHMS)}"
    if any(layer.kind != "linear" for network in algorithm.networks.values() for layer in network.layers):
        return "tensor units for convolutions in the learner pipeline"
    return ""


def _sizes(network: Network) -> Sizes:
    first, *_ = network.layers
    return (first.weight_shape[1], *(layer.weight_shape[0] for layer in network.layers))


@dataclass(frozen=True)
class PipelineDesign:
    """The hardware for an algorithm at one batch size.

    Attributes:
        networks: the layers of each trained network, with their lanes.
        double: whether a greedy action is looked up beside the target network.
        pipelines: DP. samples: PI, of each pipeline.
        dsps: of all tensor units and updates.
    """

    networks: dict[str, tuple[LayerShape, ...]]
    double: bool
    pipelines: int
    samples: int

    @property
    def passes(self) -> dict[str, Pass]:
        """The passes of a gradient step, by the network that they train."""
        if "q" in self.networks:
            q = self.networks["q"]
            return {"q": Pass(q, target=q)}
        actor, critic = self.networks["actor"], self.networks["critic"]
        return {
            "critic": Pass(critic, target=(*actor, *critic)),
            "actor": Pass((*actor, *critic), trained=len(actor)),
        }

    @property
    def multipliers(self) -> int:
        """Of a pipeline's tensor units: FW, BW, WA of each network, and FW of what makes the targets."""
        total = 0
        for name, layers in self.networks.items():
            lanes = [layer.lanes for layer in layers]
            forward = 2 + (self.double and name == "q")
            back = sum(lanes) if name == "critic" else sum(lanes[1:])  # the critic's errors reach the actor
            total += (forward + 1) * sum(lanes) + back
        return total

    @property
    def dsps(self) -> int:
        """Of all pipelines' tensor units, and of the updates."""
        lanes = sum(layer.lanes for layers in self.networks.values() for layer in layers)
        return self.pipelines * self.multipliers * MULTIPLIER_DSPS + lanes * ADAM_DSPS

    @property
    def formula_cycles(self) -> int:
        """MAP's T_learner of all passes (VI-A2): `modelled`."""
        return sum(
            map_cycles(work, samples=self.samples, pipelines=self.pipelines) for work in self.passes.values()
        )


@dataclass(frozen=True)
class PipelineStep:
    """A gradient step on a design.

    Attributes:
        design: the hardware.
        pass_cycles: clock cycles of each pass: `simulated`.
        reasons: cycles beyond MAP's formula by reason.
    """

    design: PipelineDesign
    pass_cycles: dict[str, int]
    reasons: dict[str, int]

    @property
    def cycles(self) -> int:
        """Of the step."""
        return sum(self.pass_cycles.values())

    @property
    def difference_cycles(self) -> int:
        """Simulated beyond MAP's formula."""
        return self.cycles - self.design.formula_cycles


def gradient_step(algorithm: Algorithm, batch_size: int, device: Device) -> PipelineStep:
    """A gradient step on the best design for a device, its passes simulated.

    Raises:
        ValueError: the pipeline does not run the algorithm (`refusal`), or the device has no room for it.
        RuntimeError: a simulated pass differs from the closed form of its cycles.
    """
    from primitives.fpga.cycles.learner import pipeline_cycles, update_cycles
    from primitives.fpga.cycles.simulated_units import pass_cycles
    from primitives.fpga.learner_pipeline.update_unit import adam_latency

    design = best_design(algorithm, batch_size, device)
    latency = adam_latency(batch_size)
    cycles, reasons = {}, dict[str, int]()
    for name, work in design.passes.items():
        update = update_cycles(work, adam_latency=latency)
        cycles[name] = pass_cycles(work, samples=design.samples, update=update)
        closed_form = pipeline_cycles(work, samples=design.samples) + update
        if cycles[name] != closed_form:
            raise RuntimeError(f"pass {name}: found {cycles[name]} cycles; the closed form has {closed_form}")
        terms = difference_terms(
            work, samples=design.samples, pipelines=design.pipelines, adam_latency=latency
        )
        reasons = {reason: reasons.get(reason, 0) + value for reason, value in terms.items()}
    return PipelineStep(design, cycles, reasons)


def best_design(algorithm: Algorithm, batch_size: int, device: Device) -> PipelineDesign:
    """The design of the fewest cycles by MAP's formula within `available_dsps` (VI-A2).

    DP is a power of two that divides the batch.

    Raises:
        ValueError: as `gradient_step`.
    """
    if reason := refusal(algorithm):
        raise ValueError(f"algorithm: found {algorithm.name}; needs {reason}")
    sizes = tuple((name, _sizes(network)) for name, network in algorithm.networks.items())
    double = bool(getattr(algorithm.hyperparameters, "double", False))
    found = _best(sizes, double, batch_size, available_dsps(device))
    if found is None:
        raise ValueError(f"device: found {device.name}; allowed: one with more DSPs for {algorithm.name}")
    return found


def available_dsps(device: Device) -> int:
    """The DSPs that MAP leaves the learner: it keeps one die for the replay where there are several (Table VI)."""
    dies = device.super_logic_regions
    return device.dsps * (dies - 1) // dies if dies > 1 else device.dsps


@cache
def _best(
    sizes: tuple[tuple[str, Sizes], ...], double: bool, batch_size: int, dsps: int
) -> PipelineDesign | None:
    every = [pair for _, network in sizes for pair in pairwise(network)]
    slowest = {
        -(-outputs // lanes) * (inputs + 1) for inputs, outputs in every for lanes in range(1, outputs + 1)
    }
    designs = []
    for cycles in sorted(slowest):
        networks = {name: balanced(network, cycles) for name, network in sizes}
        pipelines = 1
        while pipelines <= MOST_PIPELINES and batch_size % pipelines == 0:
            design = PipelineDesign(networks, double, pipelines, batch_size // pipelines)
            if design.dsps <= dsps:
                designs.append(design)
            pipelines *= 2
    return min(designs, key=lambda design: (design.formula_cycles, design.dsps), default=None)


def balanced(sizes: Sequence[int], slowest_cycles: int) -> tuple[LayerShape, ...]:
    """Layers with the fewest lanes that take no more cycles a sample than that, or with all lanes (MAP VI-A2, a)."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        blocks = max(1, slowest_cycles // (inputs + 1))
        layers.append(LayerShape(inputs, outputs, -(-outputs // min(blocks, outputs))))
    return tuple(layers)
