"""What a fixed-point gradient step holds its numbers in, and when that changes (FIX IV)."""

from dataclasses import dataclass

from primitives.algorithms import checks
from primitives.quantization.fixed_point import Q

_WEIGHTS, _ACTIVATIONS, _GRADIENTS = Q(32, 26), Q(32, 16), Q(32, 24)


@dataclass(frozen=True)
class Precision:
    """The formats of a fixed-point gradient step, by what a number is.

    FIX names the widths alone. The split of integer and fraction bits, and the delay, are its reader's to choose:
    `placerl reproduce --only FIX-F7-sweep` shows how they matter.

    Attributes:
        weights: parameters and target parameters, read by every product. Fine enough for a step of Adam and for
            the 1/200 of a difference that Polyak averaging moves a target by.
        activations: inputs, activations and values; wide enough for the environment's returns.
        gradients: what flows back (errors), and gradients.
        mean: Adam's first moment; None for binary32. FIX gives its Adam module no format. In fixed point a mean of
            at most 5 steps never decays: 9/10 of it rounds back to itself. A unit that gets no gradient any more
            then drifts, ever faster as the second moment falls, until its weights saturate.
        square: Adam's second moment; None for binary32. No 32-bit format will do: squares of 32-bit gradients take
            64 bits, and what rounds to 0 there divides the step by Adam's epsilon.
        activation_bits: n of Algorithm 1, of the activations that products read from step `delay` on; None for
            never.
        weight_bits: the same of the weights that products read (QuaRL quantises these too); None as FIX has it:
            all their bits. The weights themselves stay in `weights`.
        error_bits: the same of the errors that products read; None as FIX has it.
        delay: d, the gradient steps before that, in which the extremes are captured; 0 only without such bits.
    """

    weights: Q = _WEIGHTS
    activations: Q = _ACTIVATIONS
    gradients: Q = _GRADIENTS
    mean: Q | None = None
    square: Q | None = None
    activation_bits: int | None = None
    weight_bits: int | None = None
    error_bits: int | None = None
    delay: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError, which names the field, for a value out of range."""
        for name in ("activation_bits", "weight_bits", "error_bits"):
            value = getattr(self, name)
            if value is not None:
                checks.whole(name, value, 2)
                checks.in_range(name, value, 2, 16)
        checks.whole("delay", self.delay, 1 if self.narrows else 0)
        if self.delay and not self.narrows:
            raise ValueError(f"delay: found {self.delay}; allowed: 0 where nothing is quantised after it")

    @property
    def narrows(self) -> bool:
        """Whether anything is quantised after a delay."""
        return any((self.activation_bits, self.weight_bits, self.error_bits))

    def check_run(self, gradient_steps: int) -> None:
        """See that the delay ends within a run.

        Raises:
            ValueError: it does not.
        """
        if self.delay >= gradient_steps:
            raise ValueError(
                f"delay: found {self.delay}; allowed: less than the run's {gradient_steps} gradient steps"
            )


def fixed_32() -> Precision:
    """32 bits for everything, all along: the second curve of FIX Fig. 7."""
    return Precision()


def fixed_16() -> Precision:
    """16 bits for everything from the start: the curve of FIX Fig. 7 that fails to train."""
    return Precision(weights=Q(16, 13), activations=Q(16, 6), gradients=Q(16, 12))


def dynamic(delay: int, bits: int = 16) -> Precision:
    """FIX's own: 32 bits, and activations of `bits` from step `delay` on."""
    return Precision(activation_bits=bits, delay=delay)


def quarl(delay: int, bits: int = 8) -> Precision:
    """Weights and activations of `bits` after the delay, as QuaRL has it, which FIX IV starts from."""
    return Precision(activation_bits=bits, weight_bits=bits, delay=delay)


FLOAT_32, FIXED_32, FIXED_16, DYNAMIC = "float32", "fixed32", "fixed16", "dynamic"
NAMES = (FLOAT_32, FIXED_32, FIXED_16, DYNAMIC)
"""What `by_name` takes."""


def by_name(name: str, delay: int | None = None) -> Precision | None:
    """Return the formats that a name stands for; None for "float32".

    Args:
        name: one of `NAMES`.
        delay: of "dynamic", which needs one: gradient steps in 32 bits before activations narrow to 16, at least 1.

    Raises:
        ValueError: another name, "dynamic" without a delay, or a delay where nothing narrows.
    """
    checks.one_of("precision", name, NAMES)
    if name == DYNAMIC:
        if delay is None:
            raise ValueError(f"delay: found nothing; allowed: gradient steps, at least 1, for {DYNAMIC}")
        return dynamic(delay)
    if delay is not None:
        raise ValueError(f"delay: found {delay}; allowed: nothing for {name}")
    return {FLOAT_32: None, FIXED_32: fixed_32(), FIXED_16: fixed_16()}[name]
