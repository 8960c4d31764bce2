"""The ranges that Algorithm 1 captures until step d, and the n-bit rules that it makes of them (FIX IV)."""

from collections.abc import Iterable, Mapping
from typing import Any

from primitives.quantization.affine import Affine
from primitives.quantization.precision import Precision
from primitives.quantization.roles import Operand, Role


class CapturedRanges:
    """What an executable knows of the operands of its products.

    Attributes:
        precision: the formats.
        extremes: the smallest and largest raw value seen so far of each operand that will be quantised, by key.
        affine: the n-bit rule of each operand since `quantise`, by key; empty before.
        capturing: whether extremes are being captured.
    """

    def __init__(self, precision: Precision) -> None:
        """Nothing captured yet."""
        self.precision = precision
        self.extremes: dict[str, tuple[int, int]] = {}
        self.affine: dict[str, Affine] = {}
        self.capturing = precision.narrows

    def capture(self, operand: Operand, raw: Any) -> None:
        """Widen the extremes of an operand, where it will be quantised and is not yet."""
        if self.captures(operand):
            self.widen(operand, int(raw.min()), int(raw.max()))

    def captures(self, operand: Operand) -> bool:
        """Whether the extremes of an operand are being captured."""
        return self.capturing and operand.bits(self.precision) is not None

    def widen(self, operand: Operand, low: int, high: int) -> None:
        """Widen the captured extremes of an operand to hold these."""
        old = self.extremes.get(operand.key, (low, high))
        self.extremes[operand.key] = (min(low, old[0]), max(high, old[1]))

    def quantise_operands(self, operands: Iterable[Operand]) -> None:
        """Make the rules of these, and capture no more.

        What was never read in the capture (by a kind of step that was not taken) keeps all its bits.
        """
        formats = {
            Role.WEIGHT: self.precision.weights,
            Role.ACTIVATION: self.precision.activations,
            Role.ERROR: self.precision.gradients,
        }
        for operand in operands:
            bits = operand.bits(self.precision)
            if bits is not None and operand.key in self.extremes:
                low, high = self.extremes[operand.key]
                step = formats[operand.role].resolution
                self.affine[operand.key] = Affine.of_range(bits, low * step, high * step)
        self.capturing = False

    def restart_capture(self, extremes: Mapping[str, tuple[int, int]]) -> None:
        """Before `quantise` again, with these extremes captured so far."""
        self.extremes, self.affine = dict(extremes), {}
        self.capturing = self.precision.narrows
