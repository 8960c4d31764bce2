"""The blocks that can be exported and synthesised, by name, with their parameters."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _replay_pipeline(
    fanout: int = 16, levels: int = 4, leaf_bits: int = 32, tag_bits: int = 8, form: str = "wide"
) -> Any:
    """A sum tree of one pipeline (MAP IV-C4)."""
    from primitives.fpga.replay_pipeline import ReplayPipeline, TreeLayout

    return ReplayPipeline(TreeLayout(fanout, levels, leaf_bits, tag_bits), _form(form))


def _banked_replay_pipeline(
    banks: int = 4,
    fanout: int = 16,
    levels: int = 3,
    leaf_bits: int = 32,
    tag_bits: int = 8,
    form: str = "wide",
) -> Any:
    """A sum tree of several pipelines (MAP IV-C4); `levels` are those of a bank."""
    from primitives.fpga.replay_pipeline import BankedLayout, BankedPipeline, TreeLayout

    return BankedPipeline(BankedLayout(banks, TreeLayout(fanout, levels, leaf_bits, tag_bits)), _form(form))


def _gemm_core(
    side: int = 16, width: int = 32, accumulator_width: int = 64, configurable: bool = False
) -> Any:
    """The systolic matrix product core (PPO 3.2.2)."""
    from primitives.fpga.gemm_core import GemmCore

    return GemmCore(side=side, width=width, accumulator_width=accumulator_width, configurable=configurable)


def _adaptive_array(cores: int = 2, side: int = 16, width: int = 32, accumulator_width: int = 64) -> Any:
    """The array of FIX: cores that share a layer or a batch (FIX V-A, V-B)."""
    from primitives.fpga.adaptive_array import AdaptiveArray

    return AdaptiveArray(cores=cores, side=side, width=width, accumulator_width=accumulator_width)


def _processing_element(width: int = 32, accumulator_width: int = 64, configurable: bool = False) -> Any:
    """One element of the core; `configurable`: one activation or two halves (FIX V-C)."""
    from primitives.fpga.processing_element import ProcessingElement

    return ProcessingElement(width=width, accumulator_width=accumulator_width, configurable=configurable)


def _layout_transform() -> Any:
    """The addresses of a convolution's windows (PPO Fig. 4)."""
    from primitives.fpga.layout_transform import LayoutTransform

    return LayoutTransform()


def _weight_update(side: int = 16, width: int = 32) -> Any:
    """Adds gradients to the weights of two networks, a row a cycle (PPO 3.3)."""
    from primitives.fpga.weight_update import WeightUpdate

    return WeightUpdate(side=side, width=width)


def _reduce_unit(operation: str = "sum", lanes: int = 16) -> Any:
    """Reduces groups of a stream of numbers."""
    from primitives.fpga.reduce_unit import ReduceUnit

    return ReduceUnit(operation, lanes=lanes)


def _adam_unit(lanes: int = 1, batch_size: int = 256) -> Any:
    """Adam on a stream of weights, float32 (MAP Fig. 3, FIX Table I)."""
    from primitives.fpga.learner_pipeline.update_unit import adam_program
    from primitives.fpga.stream_unit import StreamUnit

    return StreamUnit(adam_program(batch_size), lanes=lanes)


def _activation_unit(function: str = "tanh", lanes: int = 1) -> Any:
    """An activation function on a stream of float32 numbers: tanh, sigmoid or relu."""
    from primitives.fpga.floating_point.operators import ProgramBuilder
    from primitives.fpga.stream_unit import StreamUnit

    if function not in ("tanh", "sigmoid", "relu"):
        raise ValueError(f"function: found {function!r}; allowed: tanh, sigmoid, relu")
    b = ProgramBuilder(1)
    value = b.apply("maximum", 0, b.constant(0)) if function == "relu" else b.apply(function, 0)
    return StreamUnit(b.finished([value]), lanes=lanes)


def _learner_pipeline(
    inputs: int = 4, hidden: int = 8, outputs: int = 1, lanes: int = 1, pipelines: int = 1, samples: int = 16
) -> Any:
    """A learner for a network of three layers: a unit for every step of every layer (MAP Fig. 3)."""
    from primitives.fpga.learner_pipeline import LayerShape, LearnerPipeline

    layers = (
        LayerShape(inputs, hidden, lanes),
        LayerShape(hidden, hidden, lanes),
        LayerShape(hidden, outputs, min(lanes, outputs)),
    )
    return LearnerPipeline(layers, pipelines=pipelines, samples=samples)


def _gaussian_generator(seed: int = 0) -> Any:
    """Gaussian numbers for exploration noise (FIX III)."""
    from primitives.fpga.random_generator import GENERATORS, GaussianGenerator, seeds

    return GaussianGenerator(seeds(seed, GENERATORS))


def _form(name: str) -> Any:
    from primitives.fpga.replay_pipeline import Form

    if name not in [form.value for form in Form]:
        raise ValueError(f"form: found {name!r}; allowed: {', '.join(form.value for form in Form)}")
    return Form(name)


@dataclass(frozen=True)
class Block:
    """A block by name.

    Attributes:
        name: as the command line takes it.
        make: builds it from keyword arguments.
    """

    name: str
    make: Callable[..., Any]

    @property
    def description(self) -> str:
        """One line."""
        return inspect.getdoc(self.make) or ""

    @property
    def defaults(self) -> dict[str, int | str | bool]:
        """Each parameter with its default, whose type is the parameter's."""
        return {name: item.default for name, item in inspect.signature(self.make).parameters.items()}

    def parameters(self, given: dict[str, str]) -> dict[str, int | str | bool]:
        """Every parameter's value: as given, as text, or the default.

        Raises:
            ValueError: there is no such parameter, or its text is no value of its type.
        """
        values = self.defaults
        for name, text in given.items():
            if name not in values:
                allowed = ", ".join(values) or "none"
                raise ValueError(f"parameter: found {name!r}; allowed: {allowed}")
            values[name] = _parsed(name, text, values[name])
        return values


def _parsed(name: str, text: str, default: int | str | bool) -> int | str | bool:
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{name}: found {text!r}; allowed: true, false")
        return text == "true"
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{name}: found {text!r}; allowed: a whole number") from None
    return text


BLOCKS = {
    block.name: block
    for block in (
        Block("replay-pipeline", _replay_pipeline),
        Block("banked-replay-pipeline", _banked_replay_pipeline),
        Block("gemm-core", _gemm_core),
        Block("adaptive-array", _adaptive_array),
        Block("processing-element", _processing_element),
        Block("layout-transform", _layout_transform),
        Block("weight-update", _weight_update),
        Block("reduce-unit", _reduce_unit),
        Block("adam-unit", _adam_unit),
        Block("activation-unit", _activation_unit),
        Block("learner-pipeline", _learner_pipeline),
        Block("gaussian-generator", _gaussian_generator),
    )
}
