"""The number formats of a fixed-point gradient step, and when they change (FIX IV)."""

from dataclasses import dataclass

from placerl.primitives import checks
from placerl.primitives.quantization.fixed_point import Q

_WEIGHTS, _ACTIVATIONS, _GRADIENTS = Q(32, 26), Q(32, 16), Q(32, 24)


@dataclass(frozen=True)
class Precision:
    """The formats of a fixed-point gradient step, by kind of number.

    FIX states only the widths. The split of integer and fraction bits, and the delay, are left open: `placerl
    reproduce --only FIX-F7-sweep` shows their effect.

    Attributes:
        weights: parameters and target parameters, read by every product. Fine enough for a step of Adam and for
            Polyak averaging, which moves a target by 1/200 of the difference.
        activations: inputs, activations and values; wide enough for the environment's returns.
        gradients: errors that flow back, and gradients.
        mean: Adam's first moment; None for binary32. FIX gives no format for its Adam module. In fixed point a
            mean of at most 5 steps never decays, because 9/10 of it rounds back to itself. A unit without further
            gradients then drifts, faster and faster as the second moment falls, until its weights saturate.
        square: Adam's second moment; None for binary32. No 32-bit format suffices: squares of 32-bit gradients
            take 64 bits, and a square that rounds to 0 divides the step by Adam's epsilon.
        activation_bits: n of Algorithm 1, for the activations that products read from step `delay` on; None: not
            quantised.
        weight_bits: the same for the weights that products read (QuaRL quantises these too); None, as in FIX: all
            bits. The stored weights keep the format `weights`.
        error_bits: the same for the errors that products read; None, as in FIX.
        delay: d, the gradient steps before products read n-bit operands, during which the operands' ranges are
            recorded; 0 only if nothing is quantised.
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
        """Raise ValueError, which names the field, for a value out of range."""
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
        """Whether products read quantised operands from step `delay` on."""
        return any((self.activation_bits, self.weight_bits, self.error_bits))

    def check_run(self, gradient_steps: int) -> None:
        """Check that a run has more gradient steps than `delay`, so that it reaches the quantised part.

        Raises:
            ValueError: `delay` is `gradient_steps` or more.
        """
        if self.delay >= gradient_steps:
            raise ValueError(
                f"delay: found {self.delay}; allowed: less than the run's {gradient_steps} gradient steps"
            )


def fixed_32() -> Precision:
    """Return the formats with 32 bits for everything, for the whole run: the second curve of FIX Fig. 7."""
    return Precision()


def fixed_16() -> Precision:
    """Return the formats with 16 bits for everything from the start: the curve of FIX Fig. 7 that fails to train."""
    return Precision(weights=Q(16, 13), activations=Q(16, 6), gradients=Q(16, 12))


def dynamic(delay: int, bits: int = 16) -> Precision:
    """Return FIX's own formats: 32 bits, with activations of fewer bits from a later gradient step on.

    Args:
        delay: gradient steps before the activations narrow, at least 1.
        bits: bits of the activations from then on.
    """
    return Precision(activation_bits=bits, delay=delay)


def quarl(delay: int, bits: int = 8) -> Precision:
    """Return 32-bit formats in which weights and activations narrow at a later gradient step, as in QuaRL.

    FIX IV is based on QuaRL.

    Args:
        delay: gradient steps before weights and activations narrow, at least 1.
        bits: bits of weights and activations from then on.
    """
    return Precision(activation_bits=bits, weight_bits=bits, delay=delay)


FLOAT_32, FIXED_32, FIXED_16, DYNAMIC = "float32", "fixed32", "fixed16", "dynamic"
BFLOAT_16 = "bfloat16"
"""The name of a precision in float32 in which products round their operands to bfloat16; it is not fixed point."""
IN_FLOATS = (FLOAT_32, BFLOAT_16)
"""The names of the precisions that keep the state in float32."""
NAMES = (FLOAT_32, FIXED_32, FIXED_16, DYNAMIC, BFLOAT_16)
"""The names that `by_name` takes."""
OTHER_PRECISIONS = NAMES[1:]


def by_name(name: str, delay: int | None = None) -> Precision | None:
    """Return the fixed-point formats of a named precision; None for "float32" and "bfloat16", which have none.

    Args:
        name: name of the precision, such as "fixed32", "fixed16" or "dynamic".
        delay: required for "dynamic": gradient steps in 32 bits before activations narrow to 16 bits, at least 1.

    Raises:
        ValueError: the name is unknown, "dynamic" has no delay, or a delay is given although nothing narrows.
    """
    checks.one_of("precision", name, NAMES)
    if name == DYNAMIC:
        if delay is None:
            raise ValueError(f"delay: found nothing; allowed: gradient steps, at least 1, for {DYNAMIC}")
        return dynamic(delay)
    if delay is not None:
        raise ValueError(f"delay: found {delay}; allowed: nothing for {name}")
    return {FLOAT_32: None, BFLOAT_16: None, FIXED_32: fixed_32(), FIXED_16: fixed_16()}[name]
