"""The hardware blocks that users can export and synthesise, by name, with their parameters."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from placerl.primitives.fpga.bench import block_stimuli as stimuli
from placerl.primitives.fpga.bench.core_file import Board
from placerl.primitives.fpga.bench.files import Bench, recorded
from placerl.primitives.fpga.cycles.difference_table import CycleDifference
from placerl.primitives.fpga.cycles.of_designs import (
    of_core,
    of_fixar,
    of_learner,
    of_map,
    of_ppo,
    of_replay,
)


@dataclass(frozen=True)
class Whole:
    """The allowed values of a block's parameter that is an integer: a range with both ends included."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return f"{self.lowest:,} to {self.highest:,}"


@dataclass(frozen=True)
class Words:
    """The allowed values of a block's parameter that is a word, such as the name of an operation."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.words)


@dataclass(frozen=True)
class Text:
    """The allowed values of a block's parameter that is a text: those that a regular expression matches.

    Attributes:
        expression: matches the whole text.
        meaning: what is allowed, for readers.
    """

    expression: str
    meaning: str

    def __str__(self) -> str:
        return self.meaning


_PER_LAYER = r"\d{1,3}(/\d{1,3})*(,\d{1,3}(/\d{1,3})*)?"
Banks = Annotated[int, Whole(2, 64)]
Fanout = Annotated[int, Whole(2, 256)]
Levels = Annotated[int, Whole(1, 32)]
LeafBits = Annotated[int, Whole(1, 48)]
Leaves = Annotated[int, Whole(0, 1 << 32)]
TagBits = Annotated[int, Whole(1, 24)]
FormName = Annotated[str, Words(("wide", "narrow"))]
Side = Annotated[int, Whole(2, 64)]
Width = Annotated[int, Whole(2, 64)]
SumWidth = Annotated[int, Whole(2, 128)]
Lanes = Annotated[int, Whole(1, 64)]
Neurons = Annotated[int, Whole(1, 4096)]
Samples = Annotated[int, Whole(1, 1 << 20)]
Seed = Annotated[int, Whole(0, (1 << 63) - 1)]
OperatorName = Annotated[
    str,
    Words(
        (
            *("add", "sub", "mul", "div", "sqrt", "exp", "log", "from_integer"),
            *("tanh_near_zero", "expm1_near_zero", "log1p_near_zero"),
            *("maximum", "minimum", "lt", "le", "gt", "ge", "eq", "ne"),
        )
    ),
]
FixarSide = Annotated[str, Words(("4", "8", "16", "32"))]
FixarNetwork = Annotated[str, Words(("halfcheetah", "hopper", "swimmer"))]
FixarCores = Annotated[int, Whole(2, 2)]


def _replay_pipeline(
    fanout: Fanout = 16,
    levels: Levels = 4,
    leaf_bits: LeafBits = 32,
    tag_bits: TagBits = 8,
    form: FormName = "wide",
    leaves: Leaves = 0,
) -> Any:
    """A sum tree of one pipeline (MAP IV-C4); `leaves` in use, 0 for all."""
    from placerl.primitives.fpga.replay_pipeline import Form, PipelineLayout, ReplayPipeline

    return ReplayPipeline(PipelineLayout(fanout, levels, leaf_bits, tag_bits, leaves), Form(form))


def _banked_replay_pipeline(
    banks: Banks = 4,
    fanout: Fanout = 16,
    levels: Levels = 3,
    leaf_bits: LeafBits = 32,
    tag_bits: TagBits = 8,
    form: FormName = "wide",
    remembers: bool = False,
    leaves: Leaves = 0,
) -> Any:
    """A sum tree of pipelines, the banks (MAP IV-C4); `levels` and `leaves` of a bank; `remembers` paths of samples."""
    from placerl.primitives.fpga.replay_pipeline import BankedLayout, BankedPipeline, Form, PipelineLayout

    bank = PipelineLayout(fanout, levels, leaf_bits, tag_bits, leaves)
    return BankedPipeline(BankedLayout(banks, bank), Form(form), remembers)


def _lane_route(
    banks: Banks = 4, fanout: Fanout = 16, levels: Levels = 3, leaf_bits: LeafBits = 32, tag_bits: TagBits = 8
) -> Any:
    """Finds the bank (a sub-tree) for the request of a lane (an input): part of the crossbar (MAP IV-C4)."""
    from placerl.primitives.fpga.replay_pipeline import BankedLayout, PipelineLayout
    from placerl.primitives.fpga.replay_pipeline.crossbar import LaneRoute

    return LaneRoute(BankedLayout(banks, PipelineLayout(fanout, levels, leaf_bits, tag_bits)))


def _bank_queues(
    banks: Banks = 4, fanout: Fanout = 16, levels: Levels = 3, leaf_bits: LeafBits = 32, tag_bits: TagBits = 8
) -> Any:
    """Holds the requests of all lanes for a bank (a sub-tree), and selects: part of the crossbar (MAP IV-C4)."""
    from placerl.primitives.fpga.replay_pipeline.crossbar import BankQueues

    return BankQueues(banks=banks, fanout=fanout, levels=levels, leaf_bits=leaf_bits, tag_bits=tag_bits)


def _gemm_core(
    side: Side = 16,
    width: Width = 32,
    accumulator_width: SumWidth = 64,
    configurable: bool = False,
    float32: bool = False,
) -> Any:
    """The systolic core that multiplies matrices (PPO 3.2.2); `float32`: in float32, whatever the widths."""
    from placerl.primitives.fpga.gemm.core import GemmCore

    _check_halves(width, configurable)
    if float32:
        if configurable:
            raise ValueError("configurable: found true; allowed with float32: false")
        return GemmCore(side=side, width=32, accumulator_width=32, block_load=True, float32=True)
    return GemmCore(side=side, width=width, accumulator_width=accumulator_width, configurable=configurable)


def _processing_element(
    width: Width = 32, accumulator_width: SumWidth = 64, configurable: bool = False
) -> Any:
    """An element of the systolic core; `configurable`: takes one activation, or two of half the width (FIX V-C)."""
    from placerl.primitives.fpga.gemm.processing_element import ProcessingElement

    _check_halves(width, configurable)
    return ProcessingElement(width=width, accumulator_width=accumulator_width, configurable=configurable)


def _float_operator(operator: OperatorName = "add") -> Any:
    """A float32 operator of the stream units: a new operation per cycle; its result after its latency."""
    from placerl.primitives.fpga.floating_point.operators import OPERATORS

    return OPERATORS[operator].make()


def _float_element() -> Any:
    """An element of the systolic core that multiplies and adds in float32 (PPO Fig. 5)."""
    from placerl.primitives.fpga.gemm.float_element import FloatElement

    return FloatElement()


def _layout_transform() -> Any:
    """Generates the addresses of a convolution's windows in a tensor, for im2col (PPO Fig. 4)."""
    from placerl.primitives.fpga.convolution.layout_transform import LayoutTransform

    return LayoutTransform()


def _weight_update(side: Side = 16, width: Width = 32) -> Any:
    """Adds gradients to the weights of two networks, a row per cycle (PPO 3.3)."""
    from placerl.primitives.fpga.pair.weight_update import WeightUpdate

    return WeightUpdate(side=side, width=width)


def _reduce_unit(
    operation: Annotated[str, Words(("sum", "max", "min", "argmax", "argmin"))] = "sum", lanes: Lanes = 16
) -> Any:
    """Reduces groups of a stream of float32 numbers to their sum, an extreme, or its position."""
    from placerl.primitives.fpga.vector.reduce_unit import ReduceUnit

    return ReduceUnit(operation, lanes=lanes)


def _adam_unit(lanes: Lanes = 1, batch_size: Samples = 256) -> Any:
    """Does Adam's step for a stream of weights, float32 (MAP Fig. 3, FIX Table I)."""
    from placerl.primitives.fpga.learner_pipeline.update_unit import adam_program
    from placerl.primitives.fpga.vector.stream_unit import StreamUnit

    return StreamUnit(adam_program(batch_size), lanes=lanes)


def _activation_unit(
    function: Annotated[str, Words(("tanh", "sigmoid", "relu"))] = "tanh", lanes: Lanes = 1
) -> Any:
    """Applies an activation function to a stream of float32 numbers: tanh, sigmoid or relu."""
    from placerl.primitives.fpga.floating_point.operators import ProgramBuilder
    from placerl.primitives.fpga.vector.stream_unit import StreamUnit

    b = ProgramBuilder(1)
    value = b.apply("maximum", 0, b.constant(0)) if function == "relu" else b.apply(function, 0)
    return StreamUnit(b.finished([value]), lanes=lanes)


def _learner_pipeline(
    inputs: Neurons = 4,
    hidden: Neurons = 8,
    outputs: Neurons = 1,
    lanes: Neurons = 1,
    pipelines: Annotated[int, Whole(1, 32)] = 1,
    samples: Samples = 16,
) -> Any:
    """A learner for a network of three layers: a unit for every step of every layer (MAP Fig. 3)."""
    from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
    from placerl.primitives.fpga.learner_pipeline.pipeline import LearnerPipeline

    layers = (
        LayerShape(inputs, hidden, lanes),
        LayerShape(hidden, hidden, lanes),
        LayerShape(hidden, outputs, min(lanes, outputs)),
    )
    return LearnerPipeline(layers, pipelines=pipelines, samples=samples)


def _gaussian_generator(seed: Annotated[int, Whole(0, (1 << 63) - 1)] = 0) -> Any:
    """Generates Gaussian numbers for exploration noise (FIX III)."""
    from placerl.primitives.fpga.vector.random_generator import GENERATORS, GaussianGenerator, seeds

    return GaussianGenerator(seeds(seed, GENERATORS))


def _cartpole_agent(seed: Annotated[int, Whole(0, (1 << 63) - 1)] = 0) -> Any:
    """An agent that learns CartPole on its own: environment, actor, prioritised replay and DQN learner."""
    from placerl.primitives.fpga.cartpole_agent import CartPoleAgent

    return CartPoleAgent(seed)


def _fixar(
    network: FixarNetwork = "halfcheetah", side: FixarSide = "16", cores: FixarCores = 2, seed: Seed = 0
) -> Any:
    """FIX's whole accelerator: trains DDPG's 400-300 networks in fixed point, on two cores of side x side elements."""
    from placerl.primitives.fpga.fixar.shape import benchmark
    from placerl.primitives.fpga.fixar.top import FixarAccelerator

    return FixarAccelerator(benchmark(network, int(side)), seed)


def _cartpole_bench(design: Any, module: str) -> dict[str, str]:
    from placerl.primitives.fpga.cartpole_agent.bench import golden_bench

    return golden_bench(design, module)


def _ppo_accelerator(
    network: Annotated[str, Words(("hopper", "humanoid"))] = "hopper",
    side: Side = 4,
    batch: Annotated[int, Whole(1, 4096)] = 16,
    activation: Annotated[str, Words(("tanh", "relu"))] = "tanh",
    clips: bool = False,
) -> Any:
    """PPO's whole accelerator: two float32 units train policy and value network, `batch` samples each (PPO 3)."""
    from placerl.primitives.fpga.ppo_accelerator.top import accelerator_for

    return accelerator_for(network, side=side, batch=batch, relu=activation == "relu", clips=clips)


def _map_accelerator(  # noqa: PLR0913 (a block: its parameters)
    network: Annotated[
        str,
        Text(
            r"cartpole|cartpole-ddpg|hopper-ddpg|small|small-ddpg|\d+(-\d+)+(,\d+(-\d+)+)?",
            "cartpole, cartpole-ddpg, hopper-ddpg, small, small-ddpg, or the neurons of a Q network's layers, such as "
            "4-8-8-2, or of an actor's and a critic's: 4-8-1,5-8-1",
        ),
    ] = "cartpole",
    lanes: Annotated[str, Text(_PER_LAYER, "a number below 1000, or one for each layer: 2/8/1,2/8/1")] = "1",
    updates: Annotated[
        str, Text(_PER_LAYER, "as lanes, each divided by a power of two; 0: as many as lanes")
    ] = "0",
    pipelines: Annotated[int, Whole(1, 32)] = 1,
    batch: Annotated[int, Whole(1, 1 << 14)] = 32,
    banks: Annotated[int, Whole(1, 64)] = 1,
    fanout: Fanout = 16,
    levels: Levels = 3,
    double: bool = False,
    leaves: Leaves = 0,
) -> Any:
    """MAP's whole accelerator for DQN or DDPG: replay, learner pipelines, target network, host interface (MAP IV)."""
    from placerl.primitives.fpga.map_accelerator.accelerator import MapAccelerator
    from placerl.primitives.fpga.map_accelerator.described import networks_of
    from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings

    *actor, layers = networks_of(network, lanes, updates)
    return MapAccelerator(
        AcceleratorSettings(
            layers,
            actor=actor[0] if actor else (),
            pipelines=pipelines,
            largest_batch=batch,
            banks=banks,
            fanout=fanout,
            levels=levels,
            leaves=leaves,
            double=double,
        )
    )


def _check_halves(width: int, configurable: bool) -> None:
    if configurable and width % 2:
        raise ValueError(
            f"width: found {width}; allowed with a configurable datapath: an even number of bits"
        )


@dataclass(frozen=True)
class Block:
    """A hardware block that users can export, with its name and parameters.

    Attributes:
        name: name on the command line.
        make: creates the block from keyword arguments, which are its parameters.
        bench: makes the files of its bench for an export; None if it has none.
        board: a board on which it runs; None if none has a top level for it.
        cycles: yields its cycles by a paper's formula and of the hardware; None if no paper has a formula.
    """

    name: str
    make: Callable[..., Any]
    bench: Bench | None = None
    board: Board | None = None
    cycles: Callable[[Any], Iterator[CycleDifference]] | None = None

    @property
    def description(self) -> str:
        """A line of text that describes the block, as `placerl rtl --list` prints it."""
        return inspect.getdoc(self.make) or ""

    @property
    def defaults(self) -> dict[str, int | str | bool]:
        """The default of each parameter, by name. It has the parameter's type."""
        return {name: item.default for name, item in inspect.signature(self.make).parameters.items()}

    @property
    def allowed(self) -> dict[str, str]:
        """The allowed values of each parameter as text, by name."""
        return {name: str(self._limits(name) or "true, false") for name in self.defaults}

    def _limits(self, name: str) -> Whole | Words | Text | None:
        of_its_type = get_args(inspect.signature(self.make).parameters[name].annotation)
        return of_its_type[1] if of_its_type else None

    def parameters(self, given: dict[str, str]) -> dict[str, int | str | bool]:
        """Return the value of every parameter by its name: the given text converted, or the default.

        Args:
            given: texts by the parameter's name, such as {"side": "16"}, as from the command line.

        Raises:
            ValueError: there is no such parameter, or the value is not allowed.
        """
        values = self.defaults
        for name, text in given.items():
            if name not in values:
                allowed = ", ".join(values) or "none"
                raise ValueError(f"parameter: found {name!r}; allowed: {allowed}")
            values[name] = _parsed(name, text, self._limits(name))
        return values


def _parsed(name: str, text: str, limits: Whole | Words | Text | None) -> int | str | bool:
    refused = ValueError(f"{name}: found {text!r}; allowed: {limits or 'true, false'}")
    if isinstance(limits, Whole):
        try:
            number = int(text)
        except ValueError:
            raise refused from None
        if not limits.lowest <= number <= limits.highest:
            raise refused
        return number
    if isinstance(limits, Text):
        if not re.fullmatch(limits.expression, text):
            raise refused
        return text
    if text not in (limits.words if limits else ("true", "false")):
        raise refused
    return text if limits else text == "true"


ULX3S = Board(
    "ulx3s",
    "ulx3s_cartpole",
    Path(__file__).parents[1] / "cartpole_agent" / "ulx3s",
    ("--85k", "--package", "CABGA381", "--speed", "6"),
)
"""The board for the CartPole agent: Radiona's ULX3S with an ECP5 LFE5U-85F."""

BLOCKS = {
    block.name: block
    for block in (
        Block(
            "replay-pipeline",
            _replay_pipeline,
            recorded(stimuli.replay_requests),
            cycles=of_replay,
        ),
        Block(
            "banked-replay-pipeline",
            _banked_replay_pipeline,
            recorded(stimuli.replay_requests),
            cycles=of_replay,
        ),
        Block("lane-route", _lane_route, recorded(stimuli.random_inputs)),
        Block("bank-queues", _bank_queues, recorded(stimuli.random_inputs)),
        Block("gemm-core", _gemm_core, recorded(stimuli.gemm_products), cycles=of_core),
        Block("processing-element", _processing_element, recorded(stimuli.random_inputs)),
        Block("float-operator", _float_operator, recorded(stimuli.random_inputs)),
        Block("float-element", _float_element, recorded(stimuli.random_inputs)),
        Block("layout-transform", _layout_transform, recorded(stimuli.convolutions)),
        Block("weight-update", _weight_update, recorded(stimuli.random_inputs)),
        Block("reduce-unit", _reduce_unit, recorded(stimuli.groups)),
        Block("adam-unit", _adam_unit, recorded(stimuli.float_words)),
        Block("activation-unit", _activation_unit, recorded(stimuli.float_words)),
        Block("learner-pipeline", _learner_pipeline, recorded(stimuli.training), cycles=of_learner),
        Block("gaussian-generator", _gaussian_generator, recorded(stimuli.no_inputs)),
        Block("cartpole-agent", _cartpole_agent, _cartpole_bench, ULX3S),
        Block("fixar", _fixar, recorded(stimuli.registers_alone), cycles=of_fixar),
        Block("map-accelerator", _map_accelerator, recorded(stimuli.registers_alone), cycles=of_map),
        Block("ppo-accelerator", _ppo_accelerator, recorded(stimuli.registers_alone), cycles=of_ppo),
    )
}
