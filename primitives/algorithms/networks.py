"""Networks as functions of their parameters, with exact counts of multiply-accumulates and parameters.

A network is an immutable description; its parameters are a plain dict of tensors that is passed in.
`network(parameters, x)` is pure and works on tensors and on NumPy arrays: an actor that requests one action at a
time is several times faster in NumPy, whose calls cost less.

| network | input | output | used by |
|---|---|---|---|
| `MLP` | (B, sizes[0]) float | (B, sizes[-1]) float | MAP Table III, PPO 5.1, FIX V-B |
| `NatureCNN` | (B, 4, 84, 84) in [0, 255] | (B, outputs) float | MAP Table III (Mnih et al. 2015) |

Weights are (out, in) and biases (out,), named `0.weight`, `0.bias`, `1.weight`, ... in the order of the
layers; a convolution's weight is (out channels, in channels, height, width).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from placerl.primitives import checks

Parameters = dict[str, Tensor]
Array = TypeVar("Array", Tensor, np.ndarray)

_TORCH_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "none": lambda x: x,
}
_NUMPY_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "none": lambda x: x,
}
ACTIVATIONS = tuple(_TORCH_ACTIVATIONS)


@dataclass(frozen=True)
class Layer:
    """The size of one layer of a network.

    Attributes:
        kind: "linear" or "convolution".
        weight_shape: (out, in), or (out channels, in channels, height, width).
        positions: how often the weights are applied to one sample: once for "linear", at each pixel of the output
            for "convolution".
    """

    kind: str
    weight_shape: tuple[int, ...]
    positions: int = 1

    @property
    def fan_in(self) -> int:
        """The number of inputs of one output unit."""
        return math.prod(self.weight_shape[1:])

    @property
    def macs(self) -> int:
        """The number of multiply-accumulates of the forward pass of one sample; adding the bias is not counted."""
        return math.prod(self.weight_shape) * self.positions

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return math.prod(self.weight_shape) + self.weight_shape[0]


class Network(Protocol):
    """The interface of networks.

    `network(parameters, x)` computes the outputs of a batch x with the parameters of a dict.
    """

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, from the input to the output."""
        ...

    @property
    def outputs(self) -> int:
        """The number of outputs for each sample."""
        ...

    def __call__(self, parameters: Mapping[str, Array], x: Array) -> Array:
        """The forward pass of a batch."""
        ...


def forward_macs(network: Network) -> int:
    """Return the number of multiply-accumulates of the forward pass of one sample."""
    return sum(layer.macs for layer in network.layers)


def parameter_count(network: Network) -> int:
    """Return the number of all weights and biases."""
    return sum(layer.parameters for layer in network.layers)


def initialise(
    network: Network,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
    gains: tuple[float, ...] | None = None,
) -> Parameters:
    """Create random parameters.

    Args:
        generator: CPU generator; a seed gives the same parameters in every `dtype`, up to rounding.
        dtype: float32 or float64.
        gains: one number per layer: its weights are orthogonal with this gain, and its biases 0 (usual for PPO).
            If None, weights and biases are uniform in ±1/sqrt(fan-in) (Lillicrap et al. 2015, section 7;
            PyTorch's default).

    Returns:
        The parameters, on the CPU.
    """
    parameters: Parameters = {}
    for index, layer in enumerate(network.layers):
        if gains is None:
            bound = 1 / math.sqrt(layer.fan_in)
            weight, bias = (
                torch.rand(shape, generator=generator, dtype=torch.float64) * (2 * bound) - bound
                for shape in (layer.weight_shape, layer.weight_shape[:1])
            )
        else:
            weight = torch.empty(layer.weight_shape, dtype=torch.float64)
            torch.nn.init.orthogonal_(weight, gains[index], generator=generator)
            bias = torch.zeros(layer.weight_shape[:1], dtype=torch.float64)
        parameters[f"{index}.weight"], parameters[f"{index}.bias"] = weight.to(dtype), bias.to(dtype)
    return parameters


def join(**parts: Mapping[str, Array]) -> dict[str, Array]:
    """Join the parameters of several networks in one dict: `first.0.weight`, `second.0.weight`, ...

    Args:
        parts: each network's parameters; the keyword is the prefix of their names.
    """
    return {f"{prefix}.{name}": value for prefix, part in parts.items() for name, value in part.items()}


def part(parameters: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return one network's parameters from parameters that `join` joined, without the prefix in their names."""
    start = f"{prefix}."
    return {name[len(start) :]: value for name, value in parameters.items() if name.startswith(start)}


def activate(name: str, x: Array) -> Array:
    """Apply an activation, such as "relu" or "tanh", to a tensor or array.

    Args:
        name: the activation's name; "none" returns `x` unchanged.
        x: tensor or NumPy array of any shape.
    """
    return _NUMPY_ACTIVATIONS[name](x) if isinstance(x, np.ndarray) else _TORCH_ACTIVATIONS[name](x)


def clip(x: Array, low: float, high: float) -> Array:
    """Clip the elements of a tensor or array to [low, high]."""
    return np.minimum(np.maximum(x, low), high) if isinstance(x, np.ndarray) else x.clamp(low, high)


def exp(x: Array) -> Array:
    """Return the exponential of a tensor or array."""
    return np.exp(x) if isinstance(x, np.ndarray) else torch.exp(x)


def choose(condition: Array, first: Array, second: Array) -> Array:
    """Select elements of `first` where `condition` is True, else of `second`; all are tensors, or all arrays."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, first, second)
    return torch.where(condition, first, second)


@dataclass(frozen=True)
class MLP:
    """A multi-layer perceptron: linear layers with an activation between them.

    Attributes:
        sizes: sizes of input, hidden layers and output, such as (11, 256, 256, 3).
        activation: activation after each hidden layer, such as "relu".
        output_activation: activation after the last layer, such as "tanh"; "none" for none.
    """

    sizes: tuple[int, ...]
    activation: str = "relu"
    output_activation: str = "none"

    def __post_init__(self) -> None:
        """Raise ValueError for a size below 1 or an unknown activation."""
        for size in self.sizes:
            checks.whole("sizes", size, 1)
        checks.whole("number of sizes", len(self.sizes), 2)
        checks.one_of("activation", self.activation, ACTIVATIONS)
        checks.one_of("output_activation", self.output_activation, ACTIVATIONS)

    @property
    def outputs(self) -> int:
        """The number of outputs for each sample."""
        return self.sizes[-1]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, from the input to the output."""
        pairs = zip(self.sizes[1:], self.sizes[:-1], strict=True)
        return tuple(Layer("linear", shape) for shape in pairs)

    def __call__(self, parameters: Mapping[str, Array], x: Array) -> Array:
        """(B, sizes[0]) to (B, sizes[-1])."""
        last = len(self.sizes) - 2
        for index in range(last + 1):
            weight, bias = parameters[f"{index}.weight"], parameters[f"{index}.bias"]
            x = x @ weight.T + bias if isinstance(x, np.ndarray) else functional.linear(x, weight, bias)
            x = activate(self.output_activation if index == last else self.activation, x)
        return x


@dataclass(frozen=True)
class NatureCNN:
    """The network for pixels of Mnih et al. 2015 (Methods): three convolutions, a linear layer, and an output layer.

    Pixels are divided by 255 inside the network, so that observations can stay uint8 in the replay.

    Attributes:
        input_shape: (channels, height, width), by default four stacked 84x84 frames.
        head: units of the output layer. None: there is no output layer, and the network returns its 512 features, for
            several networks ("heads") that share it as their first part.
        convolutions: (channels, kernel, stride) each.
        hidden: units of the linear layer after the convolutions.
    """

    input_shape: tuple[int, int, int] = (4, 84, 84)
    head: int | None = None
    convolutions: tuple[tuple[int, int, int], ...] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    hidden: int = 512
    _layers: tuple[Layer, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise ValueError if the image is smaller than the kernels need."""
        channels, height, width = self.input_shape
        layers = []
        for out, kernel, stride in self.convolutions:
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if min(height, width) < 1:
                raise ValueError(
                    f"input_shape: found {self.input_shape!r}; allowed: large enough for {kernel=}"
                )
            layers.append(Layer("convolution", (out, channels, kernel, kernel), height * width))
            channels = out
        layers.append(Layer("linear", (self.hidden, channels * height * width)))
        if self.head is not None:
            layers.append(Layer("linear", (self.head, self.hidden)))
        object.__setattr__(self, "_layers", tuple(layers))

    @property
    def outputs(self) -> int:
        """The number of outputs for each sample."""
        return self.hidden if self.head is None else self.head

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, from the input to the output."""
        return self._layers

    def __call__(self, parameters: Mapping[str, Array], x: Array) -> Array:
        """(B, channels, height, width) pixels to (B, outputs)."""
        if isinstance(x, np.ndarray):
            tensors = {name: torch.from_numpy(value) for name, value in parameters.items()}
            return self(tensors, torch.from_numpy(x)).numpy()
        x = x.to(parameters["0.weight"].dtype) * (1 / 255)
        for index, (_, _, stride) in enumerate(self.convolutions):
            weight, bias = parameters[f"{index}.weight"], parameters[f"{index}.bias"]
            x = torch.relu(functional.conv2d(x, weight, bias, stride=stride))
        index = len(self.convolutions)
        x = x.flatten(1)
        x = torch.relu(functional.linear(x, parameters[f"{index}.weight"], parameters[f"{index}.bias"]))
        if self.head is not None:
            x = functional.linear(x, parameters[f"{index + 1}.weight"], parameters[f"{index + 1}.bias"])
        return x


@dataclass(frozen=True)
class NetworkDescription:
    """The kind and sizes of an algorithm's networks: the `[network]` table of a workload's file.

    Attributes:
        kind: "mlp" or "nature_cnn".
        hidden: units of the hidden layers of an MLP; the layers of "nature_cnn" are fixed.
        activation: activation after each hidden layer of an MLP, such as "relu".
    """

    kind: str = "mlp"
    hidden: tuple[int, ...] = (256, 256)
    activation: str = "relu"

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown kind or activation, a size below 1, or layers that "nature_cnn" has not."""
        checks.one_of("kind", self.kind, ("mlp", "nature_cnn"))
        checks.one_of("activation", self.activation, ACTIVATIONS)
        if not isinstance(self.hidden, (tuple, list, np.ndarray)):
            raise ValueError(f"hidden: found {self.hidden!r}; allowed: the layers' numbers of units")
        object.__setattr__(self, "hidden", tuple(map(checks.python_value, self.hidden)))
        for size in self.hidden:
            checks.whole("hidden", size, 1)
        given = self.hidden, self.activation
        if self.kind == "nature_cnn" and given != (self._default("hidden"), self._default("activation")):
            raise ValueError(
                f"kind: found 'nature_cnn' with hidden {list(self.hidden)} and activation {self.activation!r}; "
                "allowed: neither, since its layers are fixed"
            )

    @classmethod
    def _default(cls, name: str) -> Any:
        return cls.__dataclass_fields__[name].default

    @classmethod
    def of(cls, values: "NetworkDescription | Mapping[str, Any]") -> "NetworkDescription":
        """Create a description from a mapping of its fields, such as a workload's `[network]` table.

        Args:
            values: values by the fields' names; fields left out get their defaults. A description is
                returned unchanged.

        Raises:
            ValueError: an unknown field, or a value that is not allowed.
        """
        if isinstance(values, NetworkDescription):
            return values
        known: dict[str, Any] = dict(checks.mapping("network", values))
        for name in known:
            checks.one_of("network", name, cls.__dataclass_fields__)
        return cls(**known)

    def build(self, input_shape: tuple[int, ...], outputs: int, output_activation: str = "none") -> Network:
        """Return a network of this kind.

        Args:
            input_shape: shape of an observation, or (S + A,) for an observation joined with an action.
            output_activation: activation after the last layer, such as "tanh"; only "none" for "nature_cnn".

        Raises:
            ValueError: the kind of network does not fit the shape or the activation.
        """
        if self.kind == "nature_cnn":
            checks.whole(
                "dimensions of observation_shape for nature_cnn (channels, height, width)",
                len(input_shape),
                3,
            )
            if output_activation != "none":
                raise ValueError(
                    f"kind: found 'nature_cnn' with output {output_activation!r}; allowed: 'mlp'"
                )
            return NatureCNN(input_shape=(input_shape[0], input_shape[1], input_shape[2]), head=outputs)
        if len(input_shape) != 1:
            raise ValueError(f"observation_shape: found {input_shape!r}; allowed for an mlp: one dimension")
        return MLP((*input_shape, *self.hidden, outputs), self.activation, output_activation)
