"""What a cause of slowness is found from, and how it is stated."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from placerl.harness.why.pieces import Place, is_users
from placerl.harness.why.profile import Profile
from placerl.harness.why.recording import Recording
from placerl.harness.why.source import Statement, source
from placerl.harness.why.stacks import Frame, Stack

LARGEST_GAIN = 50.0
"""Largest gain that is predicted: shares of the time are known to within two percent (`recording.RATE_HZ`)."""


@dataclass(frozen=True)
class Finding:
    """A cause of slowness in a script.

    Attributes:
        cause: its name, such as "slow wrapper".
        change: what to do about it.
        gain: predicted speed after the change, as a multiple of that before.
        because: what the prediction is made of, in words and numbers.
        lines: the user's lines to change, those with most of the time first.
    """

    cause: str
    change: str
    gain: float
    because: str
    lines: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What is known of a script.

    Attributes:
        recording: what was recorded.
        profile: where the time goes.
    """

    recording: Recording
    profile: Profile

    def facts(self, name: str) -> list[dict[str, Any]]:
        """Return the facts of a name."""
        return [fact for fact in self.recording.facts if fact["fact"] == name]

    def where(self, holds: Callable[[Stack, Place], bool]) -> tuple[float, tuple[Frame, ...]]:
        """Return the share of the samples for which something holds, and the user's lines that they come from.

        Returns:
            The share, 0 to 1, and at most three lines, most frequent first.
        """
        count, lines = 0, Counter[Frame]()
        for stack, place in self.profile.stacks:
            if holds(stack, place):
                count += stack.count
                if is_users(place.frame):
                    lines[place.frame] += stack.count
        return count / max(1, self.profile.samples), tuple(frame for frame, _ in lines.most_common(3))

    def per_second(self, gradient: bool) -> float:
        """Return how many steps of optimizers, or else of environments, the script takes per second."""
        steps = self.recording.steps.get(0)
        if steps is None or not self.recording.seconds:
            return 0.0
        return (steps.gradient if gradient else steps.environment) / self.recording.seconds

    def bursts_per_s(self) -> float:
        """Return how many times per second the script turns from its environments to gradient steps."""
        steps = self.recording.steps.get(0)
        return 0.0 if steps is None or not self.recording.seconds else steps.bursts / self.recording.seconds


class Cause(Protocol):
    """A cause of slowness. The classes that satisfy this are found in the modules of this folder."""

    def find(self, evidence: Evidence) -> Finding | None:
        """Return the cause as it is in a script; None where it is not there."""


def statement(frame: Frame) -> Statement | None:
    """Return the statement of a user's line; None for a library's."""
    return source(frame.file).at(frame.line) if is_users(frame) else None


def below(stack: Stack, frame: Frame) -> tuple[Frame, ...]:
    """Return the frames that a stack's frame called, outermost first."""
    position = len(stack.frames) - stack.frames[::-1].index(frame)
    return stack.frames[position:]


def gain(*parts: tuple[float, float]) -> float:
    """Return how many times faster a script is when some parts of its time shrink. At most `LARGEST_GAIN`.

    Args:
        parts: the share of a part of the time, 0 to 1, and the fraction of it that remains.
    """
    left = 1 - sum(share * (1 - remains) for share, remains in parts)
    return 1 / max(1 / LARGEST_GAIN, left)


def percent(share: float) -> str:
    """Return a share as text, such as "31% of the time"."""
    return f"{share:.0%} of the time"
