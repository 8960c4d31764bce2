"""Record the ranges of matrix products' operands, and make from them the rules that quantise the operands to n bits.

In FIX's Algorithm 1 (FIX IV) ranges are recorded during the first d gradient steps.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from placerl.primitives.quantization.affine import Affine
from placerl.primitives.quantization.precision import Precision
from placerl.primitives.quantization.roles import Operand, Role


class CapturedRanges:
    """Records the ranges (smallest and largest value) of the operands of matrix products, and makes rules from them.

    A rule (`Affine`) quantises an operand to n bits. Operands are identified by `Operand.key`.

    Attributes:
        affine: by key, the rule that quantises an operand; empty until the rules are made.
        capturing: whether ranges are being recorded.
    """

    def __init__(self, precision: Precision) -> None:
        """Create an object without recorded ranges."""
        self.precision = precision
        self._extremes: dict[str, tuple[int, int]] = {}
        self.affine: dict[str, Affine] = {}
        self.capturing = precision.narrows

    @property
    def extremes(self) -> dict[str, tuple[int, int]]:
        """The smallest and the largest raw value so far of each operand that will be quantised, by `Operand.key`."""
        self.collect()
        return self._extremes

    def collect(self) -> None:
        """Fetch the ranges that a backend records in its own memory during gradient steps.

        By default it does nothing, because most backends record ranges in this object.
        """

    def capture(self, operand: Operand, raw: Any) -> None:
        """Widen the recorded range of an operand to include raw values, if its range is being recorded."""
        if self.captures(operand):
            self.widen(operand, int(raw.min()), int(raw.max()))

    def captures(self, operand: Operand) -> bool:
        """Return whether the range of an operand is being recorded."""
        return self.capturing and operand.bits(self.precision) is not None

    def widen(self, operand: Operand, low: int, high: int) -> None:
        """Widen the recorded range of an operand to include the raw values `low` and `high`."""
        old = self._extremes.get(operand.key, (low, high))
        self._extremes[operand.key] = (min(low, old[0]), max(high, old[1]))

    def quantise_operands(self, operands: Iterable[Operand]) -> None:
        """Make the rules that quantise operands to n bits over their recorded ranges, and stop recording.

        An operand without a recorded range (because only a kind of step that was not taken reads it) keeps all its
        bits.
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
        """Remove all rules, and record ranges again, beginning with the given ones.

        Args:
            extremes: the smallest and the largest raw value of each operand, by `Operand.key`.
        """
        self.collect()
        self._extremes, self.affine = dict(extremes), {}
        self.capturing = self.precision.narrows

    def use_rules(self, rules: Mapping[str, Affine]) -> None:
        """Quantise operands by the given rules, and stop recording ranges.

        Args:
            rules: the rule of each operand, by `Operand.key`; other operands keep all their bits.
        """
        self.affine = dict(rules)
        self.capturing = False
