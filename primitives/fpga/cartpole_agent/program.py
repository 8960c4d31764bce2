"""The arithmetic of CartPole as programs of one fixed-point instruction, for the golden model and the hardware.

The instruction multiplies, rounds and adds:

    target = addend + a * b        or        target = addend - a * b

in the state's format, `settings.STATE_FRACTION`. The product is rounded to nearest, ties upwards, and the result keeps
the low 32 bits. The dynamics are those of Gymnasium's CartPole-v1 (Barto, Sutton and Anderson 1983, with the Euler
integrator). They need neither a table nor a division: within the 12 degrees beyond which an episode ends, polynomials
give the sine, the cosine, and the reciprocal of 1 + u with u = 3 sin^2 / 41 at most 0.0032, which is
1 - u (1 - u (1 - u)).
"""

from typing import NamedTuple

from placerl.primitives.fpga.cartpole_agent.settings import STATE_FRACTION

STATE = ("x", "x_dot", "theta", "theta_dot")
INPUTS = ("push", "random", "total")
"""Operands from outside: plus or minus `PUSH` for the action; 26 random bits, in [0, 1); the sum tree's total."""
PUSH = 10 / 1.1  # force by total mass
CONSTANTS = {
    "zero": 0.0,
    "one": 1.0,
    "half": 0.5,
    "1/6": 1 / 6,
    "1/20": 1 / 20,
    "1/12": 1 / 12,
    "1/30": 1 / 30,
    "gravity": 9.8,
    "pole/total": 0.05 / 1.1,  # mass of the pole times half its length, by total mass
    "3/41": 3 / 41,
    "66/41": 66 / 41,
    "tau": 0.02,
    "width": 0.1,  # of the interval from which a state begins
    "low": -0.05,
}


class ScalarInstruction(NamedTuple):
    """`target = addend + a * b`, or `addend - a * b` if `negative`; the operands are names."""

    target: str
    addend: str
    a: str
    b: str
    negative: bool = False


def _add(target: str, addend: str, a: str, b: str) -> ScalarInstruction:
    return ScalarInstruction(target, addend, a, b)


def _sub(target: str, addend: str, a: str, b: str) -> ScalarInstruction:
    return ScalarInstruction(target, addend, a, b, True)


STEP = (
    _add("square", "zero", "theta", "theta"),
    _sub("s", "one", "square", "1/20"),
    _add("t", "zero", "square", "1/6"),
    _sub("s", "one", "t", "s"),
    _add("sin", "zero", "theta", "s"),
    _sub("s", "one", "square", "1/30"),
    _add("t", "zero", "square", "1/12"),
    _sub("s", "one", "t", "s"),
    _add("t", "zero", "square", "half"),
    _sub("cos", "one", "t", "s"),
    _add("t", "zero", "theta_dot", "theta_dot"),
    _add("t", "zero", "t", "sin"),
    _add("push", "push", "t", "pole/total"),  # the force without the pole's reaction, by total mass
    _add("t", "zero", "sin", "sin"),
    _add("t", "zero", "t", "3/41"),
    _sub("s", "one", "t", "one"),
    _sub("s", "one", "t", "s"),
    _sub("s", "one", "t", "s"),
    _add("t", "zero", "gravity", "sin"),
    _sub("t", "t", "cos", "push"),
    _add("t", "zero", "t", "s"),
    _add("t", "zero", "t", "66/41"),  # the pole's angular acceleration
    _add("s", "zero", "t", "cos"),
    _sub("push", "push", "s", "pole/total"),  # the cart's acceleration
    _add("x", "x", "x_dot", "tau"),
    _add("x_dot", "x_dot", "push", "tau"),
    _add("theta", "theta", "theta_dot", "tau"),
    _add("theta_dot", "theta_dot", "t", "tau"),
)
"""An environment step: replaces the state, given `push`."""

RESET = tuple(_add(name, "low", "random", "width") for name in STATE)
"""The beginning of an episode: the state is uniform in [-0.05, 0.05]. Every instruction takes a new `random`."""

SAMPLE = (_add("t", "zero", "random", "total"),)
"""The prefix sum of a sample, uniform in [0, total], which goes to "t"."""

TEMPORARIES = ("square", "s", "t", "sin", "cos")


def fixed(value: float) -> int:
    """Return a number in the state's format, as an integer rounded to nearest."""
    return round(value * (1 << STATE_FRACTION))
