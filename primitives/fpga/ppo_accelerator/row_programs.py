"""The element-wise float32 programs between the products: activation function and derivative, for one element."""

from placerl.primitives.fpga.floating_point.operators import ProgramBuilder, StreamProgram
from placerl.primitives.fpga.vector.stream_unit import StreamLane


def activation_name(relu: bool) -> str:
    """Return the name of an activation function, "relu" or "tanh"."""
    return "relu" if relu else "tanh"


def activation_program(activation: str) -> StreamProgram:
    """Return the program a = f(z) of an activation function, "tanh" or "relu" (PPO Equation 2)."""
    b = ProgramBuilder(1)
    return b.finished([b.apply("maximum", 0, b.constant(0)) if activation == "relu" else b.apply("tanh", 0)])


def derivative_program(activation: str) -> StreamProgram:
    """Return the program of a delta, from (W^T d, a): f'(z) W^T d, the Hadamard product of PPO Equation 3.

    f'(z) is 1 - a^2 of tanh, and [a > 0] of ReLU.
    """
    b = ProgramBuilder(2)
    back, a = 0, 1
    if activation == "relu":
        return b.finished([b.apply("where", b.apply("lt", b.constant(0), a), back, b.constant(0))])
    return b.finished([b.apply("mul", back, b.apply("sub", b.constant(1), b.apply("mul", a, a)))])


def row_cycles(relu: bool) -> dict[str, int]:
    """Return the cycles from the request of a product's row until it is written, by the kind of step.

    The kinds are those of both accelerators: "OUTPUT", to the host; "ACTIVATE" and "DERIVE", through the programs.
    """
    name = activation_name(relu)
    return {
        "OUTPUT": 1,
        "ACTIVATE": 1 + activation_program(name).latency,
        "DERIVE": 1 + derivative_program(name).latency,
    }


class ActivationLane(StreamLane):
    """Applies an activation function to one number per cycle.

    Args:
        relu: whether it is ReLU; otherwise tanh.
    """

    def __init__(self, *, relu: bool):
        super().__init__(activation_program(activation_name(relu)))


class DerivativeLane(StreamLane):
    """Multiplies one number per cycle by the derivative of an activation function.

    Args:
        relu: whether it is ReLU; otherwise tanh.
    """

    def __init__(self, *, relu: bool):
        super().__init__(derivative_program(activation_name(relu)))
