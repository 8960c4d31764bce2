"""Nodes of a fixed-point graph as operations of the extension, many of them in one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from primitives.quantization.places import Step
from primitives.quantization.ranges import CapturedRanges
from primitives.quantization.roles import Operand

Count = Callable[[str, int], None]


@dataclass(frozen=True)
class Part:
    """One operation.

    Attributes:
        operation: the extension's.
        labels: what each of its counts of saturated numbers is counted under.
        by_definition: does its work where it cannot run.
        operands: of a product, whose extremes it gives.
    """

    operation: Any
    labels: tuple[str, ...] = ()
    by_definition: Step | None = None
    operands: tuple[Operand, ...] = ()


class NativeStep:
    """Operations one after another in one call; where one cannot run, its definition does."""

    def __init__(self, native: Any, parts: Sequence[Part], ranges: CapturedRanges, count: Count) -> None:
        self._native, self.parts, self._ranges, self._count = native, tuple(parts), ranges, count
        self._labels = sorted({label for part in parts for label in part.labels})
        self._zeros = [0] * len(self._labels)
        self._sequence = native.Sequence(len(self._labels))
        for part in parts:
            self._sequence.add(part.operation, [self._labels.index(label) for label in part.labels])
        self._products = [part for part in parts if part.operands]

    def __call__(self) -> None:
        """Run them all."""
        position = 0
        while (position := self._sequence.run(position)) < len(self.parts):
            by_definition = self.parts[position].by_definition
            assert by_definition is not None
            by_definition()
            position += 1
        counts = self._sequence.counts
        if counts != self._zeros:
            self._sequence.counts = self._zeros
            for label, saturated in zip(self._labels, counts, strict=True):
                self._count(label, saturated)
        if self._ranges.capturing:
            self._capture()

    def _capture(self) -> None:
        for part in self._products:
            for operand, (low, high) in zip(part.operands, part.operation.extremes, strict=True):
                # Without any, the definition ran, and captured them.
                if low <= high and self._ranges.captures(operand):
                    self._ranges.widen(operand, low, high)

    def and_then(self, others: Sequence["NativeStep"]) -> "NativeStep":
        """This and others as one."""
        parts = [part for step in (self, *others) for part in step.parts]
        return NativeStep(self._native, parts, self._ranges, self._count)


def joined(steps: Sequence[Step]) -> list[Step]:
    """The same with neighbours that are native as one step."""
    result: list[Step] = []
    for native, group in groupby(steps, lambda step: isinstance(step, NativeStep)):
        run = list(group)
        if native:
            first, *others = [step for step in run if isinstance(step, NativeStep)]
            result.append(first.and_then(others))
        else:
            result.extend(run)
    return result
