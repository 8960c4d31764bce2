"""The ranges that Algorithm 1 captures until step d, and the n-bit rules made from them (FIX IV)."""

from collections.abc import Iterable, Mapping
from typing import Any

from primitives.quantization.affine import Affine
from primitives.quantization.precision import Precision
from primitives.quantization.roles import Operand, Role


class CapturedRanges:
    """The captured ranges of the operands of an executable's products.

    Attributes:
        precision: the formats.
        affine: the n-bit rule of each operand since `quantise`, by key; empty before.
        capturing: whether extremes are being captured.
    """

    def __init__(self, precision: Precision) -> None:
        """Create an object without captured ranges."""
        self.precision = precision
        self._extremes: dict[str, tuple[int, int]] = {}
        self.affine: dict[str, Affine] = {}
        self.capturing = precision.narrows

    @property
    def extremes(self) -> dict[str, tuple[int, int]]:
        """Return the smallest and largest raw value so far of each operand that will be quantised, by key."""
        self.collect()
        return self._extremes

    def collect(self) -> None:
        """Copy extremes that a backend recorded elsewhere during steps; most backends record them here."""

    def capture(self, operand: Operand, raw: Any) -> None:
        """Widen the extremes of an operand, if it will be quantised and is not yet."""
        if self.captures(operand):
            self.widen(operand, int(raw.min()), int(raw.max()))

    def captures(self, operand: Operand) -> bool:
        """Whether the extremes of an operand are being captured."""
        return self.capturing and operand.bits(self.precision) is not None

    def widen(self, operand: Operand, low: int, high: int) -> None:
        """Widen the captured extremes of an operand to include the given ones."""
        old = self._extremes.get(operand.key, (low, high))
        self._extremes[operand.key] = (min(low, old[0]), max(high, old[1]))

    def quantise_operands(self, operands: Iterable[Operand]) -> None:
        """Make the rules of the operands, and stop capturing.

        An operand that was not read during the capture (by a kind of step that was not taken) keeps all its bits.
        """
        formats = {
            Role.WEIGHT: self.precision.weights,
            Role.ACTIVATION: self.precision.activations,
            Role.ERROR: self.precision.gradients,
        }
        extremes = self.extremes
        for operand in operands:
            bits = operand.bits(self.precision)
            if bits is not None and operand.key in extremes:
                low, high = extremes[operand.key]
                step = formats[operand.role].resolution
                self.affine[operand.key] = Affine.of_range(bits, low * step, high * step)
        self.capturing = False

    def restart_capture(self, extremes: Mapping[str, tuple[int, int]]) -> None:
        """Return to the state before `quantise`, with the given captured extremes."""
        self.collect()
        self._extremes, self.affine = dict(extremes), {}
        self.capturing = self.precision.narrows

    def use_rules(self, rules: Mapping[str, Affine]) -> None:
        """Have products read their operands by these rules, by key, and capture nothing."""
        self.affine = dict(rules)
        self.capturing = False
