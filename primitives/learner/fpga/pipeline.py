"""A gradient step on MAP's learner pipeline (MAP IV-B3, Fig. 3): its hardware and its clock cycles.

The systolic core (`fpga_backend`) computes one product after another. In this pipeline every layer has its own
units, each with a number of multipliers (lanes), and the samples of a batch stream through them. A pass sends the
batch forward to a loss and back, and trains one network. MAP uses the pipeline for DQN and DDPG (Table VI):

| algorithm | pass | targets | forward | backward | trained |
|---|---|---|---|---|---|
| dqn | q | target network | q | q | q |
| ddpg | critic | target actor, target critic | critic | critic | critic |
| ddpg | actor | | actor, critic | critic, actor | actor |

Passes follow each other, because the actor's pass needs the new critic; both use the same units of the critic.
(Double DQN's greedy action goes through the network in parallel with the target network: with its own units and
without further cycles.) Target networks are updated while their weights are written. Cycles are `simulated` by
`fpga.learner_pipeline.timer` and kept in the table of cycles. The RTL of the whole step, with sampling and update of
priorities, is `fpga.map_accelerator`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from math import ceil

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.algorithms.networks import Network, parameter_count
from placerl.primitives.fpga.cycles.learner import Pass, difference_terms, gradient_step_passes, map_cycles
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.devices.catalogue import FpgaDevice
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape
from placerl.primitives.learner.fpga.pipeline_resources import (
    BLOCK_BITS,
    BLOCK_WORDS,
    MOMENT_BITS,
    SUM_BITS,
    PipelineResources,
    available,
    taken,
)

ALGORITHMS = ("dqn", "ddpg")
BOARD = "u200"  # MAP VII-A
MOST_PIPELINES = 32
MOST_PARTS = 64
"""Most parts of a word of weights that are updated one after another."""

Sizes = tuple[int, ...]
"""The numbers of neurons of a network's layers, beginning with its inputs."""


def refusal(algorithm: Algorithm) -> str:
    """Return why MAP's learner pipeline cannot run an algorithm, as text; empty if it can."""
    if algorithm.name not in ALGORITHMS:
        return f"a learner pipeline for {algorithm.name}: MAP (Table VI) has those of {', '.join(ALGORITHMS)}"
    if any(layer.kind != "linear" for network in algorithm.networks.values() for layer in network.layers):
        room = available(catalogue.device(BOARD)).block_rams
        return (
            f"tensor units for convolutions in the learner pipeline (by im2col the network's weights would take "
            f"{least_block_rams(algorithm):,} block RAMs or more, of {room:,} for the learner of MAP's {BOARD})"
        )
    return ""


def least_block_rams(algorithm: Algorithm) -> int:
    """Return the fewest block RAMs of 36 Kbit that the weights of one pipeline (DP = 1) would need; `modelled`.

    By im2col a convolution is a layer whose inputs are the words of a window, and whose samples are the windows: it
    has the same memories as any layer, each with a copy of the weights or with a number for every weight. All bits of
    the block RAMs are taken to be used, which wide words do not allow.

    Args:
        algorithm: DQN or DDPG, with networks of any layers.
    """
    passes = forward_passes(
        tuple(algorithm.networks), bool(getattr(algorithm.hyperparameters, "double", False))
    )
    bits = (passes + 1) * FORMAT.bits + SUM_BITS + MOMENT_BITS  # forward, backward; gradient; update
    weights = sum(parameter_count(network) for network in algorithm.networks.values())
    return ceil(weights * bits / (BLOCK_BITS * BLOCK_WORDS))


def forward_passes(networks: Sequence[str], double: bool) -> int:
    """Return how many units of the forward pass every layer has: for its network, the target and a greedy action.

    Args:
        networks: names of the trained networks: "q", or "actor" and "critic".
        double: whether a greedy action is computed in parallel with the target network (double DQN).
    """
    return 2 + (double and "q" in networks)


def _sizes(network: Network) -> Sizes:
    first, *_ = network.layers
    return (first.weight_shape[1], *(layer.weight_shape[0] for layer in network.layers))


@dataclass(frozen=True)
class PipelineDesign:
    """The hardware of MAP's learner pipeline (units for every layer) for an algorithm at one batch size.

    Attributes:
        networks: by name, the layers of each trained network, with their lanes (multipliers per unit) and updates
            (weights that are updated per cycle).
        double: whether a greedy action is computed in parallel with the target network (double DQN).
        pipelines: DP, number of pipelines, which divide a batch.
        samples: PI, samples of a batch per pipeline.
    """

    networks: dict[str, tuple[LayerShape, ...]]
    double: bool
    pipelines: int
    samples: int

    @property
    def passes(self) -> dict[str, Pass]:
        """Return the passes of a gradient step, by the name of the network that each trains, such as "critic".

        A pass sends the batch forward to a loss and back, and trains one network.
        """
        if "q" in self.networks:
            return dict(zip(("q",), gradient_step_passes(self.networks["q"]), strict=True))
        passes = gradient_step_passes(self.networks["critic"], self.networks["actor"])
        return dict(zip(("critic", "actor"), passes, strict=True))

    @property
    def resources(self) -> PipelineResources:
        """Return the resources that the units of all pipelines and the weight updates need."""
        every = [layer for layers in self.networks.values() for layer in layers]
        backward: list[LayerShape] = []
        for name, layers in self.networks.items():
            backward += layers if name == "critic" else layers[1:]  # the critic's errors reach the actor
        forwards = forward_passes(tuple(self.networks), self.double)
        return taken(every * forwards, backward, every, every, self.pipelines)

    @property
    def formula_cycles(self) -> int:
        """Return the cycles of a gradient step by MAP's formula for T_learner (VI-A2); `modelled`, not simulated."""
        return sum(
            map_cycles(work, samples=self.samples, pipelines=self.pipelines) for work in self.passes.values()
        )


@dataclass(frozen=True)
class PipelineStep:
    """A gradient step on a `PipelineDesign`, with its clock cycles.

    Attributes:
        design: the hardware.
        pass_cycles: clock cycles of each pass, by the network that it trains; `simulated`.
        reasons: clock cycles that the step takes beyond MAP's formula, by reason.
    """

    design: PipelineDesign
    pass_cycles: dict[str, int]
    reasons: dict[str, int]

    @property
    def cycles(self) -> int:
        """The clock cycles of the gradient step."""
        return sum(self.pass_cycles.values())

    @property
    def difference_cycles(self) -> int:
        """The clock cycles that the simulated step takes beyond MAP's formula."""
        return self.cycles - self.design.formula_cycles


def gradient_step(
    algorithm: Algorithm, batch_size: int, device: FpgaDevice, pipelines: int | None = None
) -> PipelineStep:
    """Return the clock cycles of a gradient step on the best design of MAP's pipeline for a device.

    The cycles of its passes (forward and backward through the networks) are those of the table of cycles.

    Args:
        algorithm: an algorithm that the pipeline runs.
        pipelines: DP, number of pipelines; by default that of the best design.

    Raises:
        ValueError: the pipeline does not run the algorithm (`refusal`), or does not fit the device.
        MissingCyclesError: the table of cycles lacks a pass.
        RuntimeError: a simulated pass differs from the closed form of its cycles.
    """
    from placerl.primitives.fpga.cycles.learner import pipeline_cycles, update_cycles
    from placerl.primitives.fpga.learner_pipeline.update_unit import target_latency

    design = best_design(algorithm, batch_size, device, pipelines=pipelines)
    latency = target_latency()
    cycles, reasons = simulated_passes(design), dict[str, int]()
    for name, work in design.passes.items():
        update = update_cycles(work, adam_latency=latency)
        closed_form = pipeline_cycles(work, samples=design.samples) + update
        if cycles[name] != closed_form:
            raise RuntimeError(f"pass {name}: found {cycles[name]} cycles; the closed form has {closed_form}")
        terms = difference_terms(
            work, samples=design.samples, pipelines=design.pipelines, adam_latency=latency
        )
        reasons = {reason: reasons.get(reason, 0) + value for reason, value in terms.items()}
    return PipelineStep(design, cycles, reasons)


def simulated_passes(design: PipelineDesign) -> dict[str, int]:
    """Return the simulated clock cycles of each pass of a gradient step, by the network that it trains.

    Raises:
        MissingCyclesError: the table of cycles lacks a pass.
    """
    from placerl.primitives.fpga.cycles.learner import update_cycles
    from placerl.primitives.fpga.cycles.simulated_units import pass_cycles
    from placerl.primitives.fpga.learner_pipeline.update_unit import target_latency

    latency = target_latency()
    return {
        name: pass_cycles(work, samples=design.samples, update=update_cycles(work, adam_latency=latency))
        for name, work in design.passes.items()
    }


def accelerator_cycles(design: PipelineDesign, batch_size: int, capacity: int, fanout: int) -> int | None:
    """Return the clock cycles of a gradient step on MAP's whole accelerator: sampling, learning, new priorities.

    They come from the closed form of `map_accelerator.timer`, which its tests compare with the RTL of one to four
    pipelines; one bank. The tree's levels hold at least `capacity` transitions.

    Args:
        capacity: transitions of the replay.
        fanout: K, children of a node of its tree.

    Returns:
        The cycles; None for a K that is not a power of two, which the accelerator does not have.
    """
    from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings
    from placerl.primitives.fpga.map_accelerator.timer import step_cycles

    if fanout & (fanout - 1):
        return None
    levels = 1
    while fanout**levels < capacity:
        levels += 1
    settings = AcceleratorSettings(
        design.networks.get("q") or design.networks["critic"],
        actor=design.networks.get("actor", ()),
        pipelines=design.pipelines,
        largest_batch=batch_size,
        fanout=fanout,
        levels=levels,
        leaves=capacity,
        double=design.double,
    )
    return step_cycles(settings, batch_size)


def pipeline_counts(batch_size: int) -> list[int]:
    """Return the numbers of pipelines (DP) that are considered for a batch: powers of two that divide it."""
    powers = (1 << bits for bits in range(MOST_PIPELINES.bit_length()))
    return [count for count in powers if batch_size % count == 0]


def best_design(
    algorithm: Algorithm,
    batch_size: int,
    device: FpgaDevice,
    limit: PipelineResources | None = None,
    *,
    pipelines: int | None = None,
) -> PipelineDesign:
    """Return the design with the fewest cycles by MAP's formula that fits the limit (VI-A2).

    DP is one of `pipeline_counts`.

    Args:
        algorithm: an algorithm that the pipeline runs.
        limit: resources for the learner; by default those `available` on the device.
        pipelines: DP, number of pipelines; by default that of the fastest design.

    Raises:
        ValueError: the pipeline does not run the algorithm (`refusal`), there is no such number of pipelines, or they
            do not fit the limit; the message names the resources that are too few.
    """
    if reason := refusal(algorithm):
        raise ValueError(f"algorithm: found {algorithm.name}; needs {reason}")
    sizes = {name: _sizes(network) for name, network in algorithm.networks.items()}
    double = bool(getattr(algorithm.hyperparameters, "double", False))
    limit = available(device) if limit is None else limit
    possible = designs(sizes, batch_size, limit, double=double)
    if pipelines is not None:
        if pipelines not in (counts := pipeline_counts(batch_size)):
            listed = ", ".join(map(str, counts))
            raise ValueError(
                f"pipelines: found {pipelines}; allowed: {listed}, which divide a batch of {batch_size}"
            )
        fitting = sorted(design.pipelines for design in possible)
        possible = [design for design in possible if design.pipelines == pipelines]
        if not possible and fitting:
            lacking = smallest_design(sizes, batch_size, pipelines, double=double).resources.lacking(limit)
            raise ValueError(
                f"pipelines: found {pipelines}; allowed: {', '.join(map(str, fitting))} on the {device.name}: with "
                f"one multiplier a layer, {pipelines} would need {lacking}"
            )
    if not possible:
        lacking = smallest_design(sizes, batch_size, 1, double=double).resources.lacking(limit)
        raise ValueError(
            f"device: found {device.name}; allowed: one with more resources for {algorithm.name}: with one "
            f"multiplier a layer, a pipeline would need {lacking}"
        )
    return possible[0]


def smallest_design(
    sizes: Mapping[str, Sizes], batch_size: int, pipelines: int, *, double: bool = False
) -> PipelineDesign:
    """Return the design with one lane (multiplier per unit) in every layer, which may not fit any device.

    Args:
        sizes: by network ("q", or "actor" and "critic"), the neurons of its layers, beginning with its inputs.
        batch_size: B, a multiple of the pipelines.
        double: whether a greedy action is computed in parallel with the target network (double DQN).
    """
    networks = {
        name: tuple(LayerShape(inputs, outputs, 1) for inputs, outputs in pairwise(network))
        for name, network in sizes.items()
    }
    return PipelineDesign(networks, double, pipelines, batch_size // pipelines)


def designs(
    sizes: Mapping[str, Sizes], batch_size: int, limit: PipelineResources, *, double: bool = False
) -> list[PipelineDesign]:
    """Return the fastest design that fits a limit, for each number of pipelines (DP) with which one fits.

    The designs are sorted by their cycles by MAP's formula, the fastest first.

    Args:
        sizes: by network ("q", or "actor" and "critic"), the neurons of its layers, beginning with its inputs.
        limit: resources for the learner.
        double: whether a greedy action is computed in parallel with the target network (double DQN).

    Raises:
        ValueError: a layer has more neurons than `LayerShape` allows.
    """
    return list(_designs(tuple(sizes.items()), double, batch_size, limit))


@cache
def _designs(
    sizes: tuple[tuple[str, Sizes], ...], double: bool, batch_size: int, limit: PipelineResources
) -> tuple[PipelineDesign, ...]:
    every = [pair for _, network in sizes for pair in pairwise(network)]
    slowest = {
        -(-outputs // lanes) * (inputs + 1) for inputs, outputs in every for lanes in range(1, outputs + 1)
    }
    # Most limits lead to the same layers.
    considered = {
        tuple(balanced(network, cycles, cycles << bits) for _, network in sizes): None
        for cycles, bits in product(sorted(slowest), range(MOST_PARTS.bit_length()))
    }
    best: dict[int, PipelineDesign] = {}
    for layers in considered:
        networks = dict(zip(dict(sizes), layers, strict=True))
        for pipelines in pipeline_counts(batch_size):
            design = PipelineDesign(networks, double, pipelines, batch_size // pipelines)
            if design.resources.fits(limit):
                best[pipelines] = min(best.get(pipelines, design), design, key=_order)
    return tuple(sorted(best.values(), key=_order))


def _order(design: PipelineDesign) -> tuple[int, int]:
    return design.formula_cycles, design.resources.dsps


def balanced(sizes: Sequence[int], slowest_cycles: int, update_cycles: int = 0) -> tuple[LayerShape, ...]:
    """Return a network's layers, each with the fewest lanes and updates that are fast enough (MAP VI-A2, a).

    Lanes are a unit's multipliers, and updates the weights that are updated per cycle. Lanes are rounded up to a
    multiple of the parts into which updates divide them.

    Args:
        sizes: neurons of the network's layers, beginning with its inputs.
        slowest_cycles: most cycles that a layer may take per sample. A layer that cannot be as fast has a lane for
            every output.
        update_cycles: most cycles that a layer's update may take, if its parts are at most its lanes; 0: every layer
            updates a whole word per cycle.
    """
    layers = []
    for inputs, outputs in pairwise(sizes):
        blocks = max(1, slowest_cycles // (inputs + 1))
        layer = LayerShape(inputs, outputs, -(-outputs // min(blocks, outputs)))
        most = min(layer.lanes, MOST_PARTS, max(1, update_cycles // layer.words))
        parts = 1 << most.bit_length() - 1
        while (lanes := -(-layer.lanes // parts) * parts) > outputs:
            parts //= 2
        layers.append(LayerShape(inputs, outputs, lanes, lanes // parts))
    return tuple(layers)
