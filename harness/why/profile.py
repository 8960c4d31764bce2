"""Sums up the samples of a script: the share of each piece of its training, and of each of its lines."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placerl.harness.why.piece import Piece
from placerl.harness.why.pieces import Place, place
from placerl.harness.why.stacks import Frame, Stack


@dataclass(frozen=True)
class Profile:
    """Where the time of the thread that trains goes.

    Attributes:
        samples: how many samples it is made of.
        shares: share of the time, 0 to 1, by piece; most first. They add up to 1.
        lines: share of the time by piece and the user's line that it comes from, most first.
        stacks: the stacks of the thread, with the place of each.
    """

    samples: int
    shares: Mapping[Piece, float]
    lines: Mapping[Place, float]
    stacks: tuple[tuple[Stack, Place], ...]

    def share(self, *pieces: Piece) -> float:
        """Return the share of some pieces together, 0 to 1."""
        return sum(self.shares.get(one, 0.0) for one in pieces)


def _thread(stacks: Iterable[tuple[Stack, Place]], process: int) -> int:
    """Return the thread with most of the gradient steps; without any, the main one."""
    counts = Counter({process: 0})
    for stack, where in stacks:
        counts[stack.thread] += stack.count * (where.piece is Piece.GRADIENT)
    return counts.most_common(1)[0][0]


def profile(stacks: Iterable[Stack], process: int) -> Profile:
    """Return the profile of the thread of a process that trains.

    Args:
        stacks: what was sampled, of all processes.
        process: the process that trains.
    """
    placed = [(stack, place(stack.frames)) for stack in stacks if stack.process == process]
    thread = _thread(placed, process)
    chosen = tuple((stack, where) for stack, where in placed if stack.thread == thread)
    samples = sum(stack.count for stack, _ in chosen)
    pieces: Counter[Piece] = Counter()
    lines: Counter[Place] = Counter()
    for stack, where in chosen:
        pieces[where.piece] += stack.count
        lines[where] += stack.count
    return Profile(
        samples,
        {piece: count / samples for piece, count in pieces.most_common()},
        {where: count / samples for where, count in lines.most_common()},
        chosen,
    )


def line_name(frame: Frame, folder: str) -> str:
    """Return a line in short, such as "train.py:64 main".

    Args:
        folder: the folder, with a slash at its end, that paths are shown relative to.
    """
    function = frame.function.rpartition("<locals>.")[2]
    return f"{frame.file.removeprefix(folder)}:{frame.line} {'' if function == '<module>' else function}".rstrip()
