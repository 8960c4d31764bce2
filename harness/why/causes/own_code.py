"""Causes in lines of the user's own: wrappers, copies, evaluation, logging, and Python around the training."""

import re

from placerl.harness.why.causes.base import Evidence, Finding, below, gain, percent, statement
from placerl.harness.why.causes.caches import copying, environments, reload_s
from placerl.harness.why.causes.replay import takes_items
from placerl.harness.why.causes.trained import trained_by
from placerl.harness.why.piece import Piece
from placerl.harness.why.pieces import Place, moves
from placerl.harness.why.stacks import Stack

_NETWORK = re.compile(r"/torch/(nn/modules|optim|autograd)/|/torch/_tensor")
_COMPUTES = re.compile(r"forward|backward|call_impl|step")
_COPY = re.compile(
    r"to|cpu|cuda|item|tolist|tensor|as_tensor|FloatTensor|deepcopy|clone|(load_)?state_dict|half|double"
)
_ENVIRONMENT = re.compile(r"Env\b")
_ELSEWHERE = (Piece.ENVIRONMENT, Piece.EVALUATION, Piece.START)
_FEWER = 10
_MOST_COPYING_S = 0.1
"""Longest copying between two rounds of gradient steps that is repeated here: a gigabyte and more takes longer."""


def _in_network(stack: Stack, place: Place) -> bool:
    """Return whether a network computes, which copies of its weights do not."""
    frames = below(stack, place.frame)
    return any(_NETWORK.search(frame.file) and _COMPUTES.search(frame.function) for frame in frames)


def _in_wrapper(stack: Stack, place: Place) -> bool:
    """Return whether a wrapper of the user runs, and not the environment inside it."""
    for frame in reversed(stack.frames):
        found = statement(frame)
        bases = () if found is None else found.bases
        if any("Wrapper" in base for base in bases):
            return not any("/gymnasium/" in inner.file for inner in below(stack, frame))
        if any(_ENVIRONMENT.search(base) for base in bases):
            return False
    return False


def _copies(stack: Stack, place: Place) -> bool:
    """Return whether a line of the user runs that does nothing but copy or convert, and not item by item."""
    found = statement(place.frame)
    if place.piece in _ELSEWHERE or found is None or not moves(found):
        return False
    copied = any(_COPY.fullmatch(call.name) for call in found.calls)
    return copied and not (
        _in_network(stack, place) or _in_wrapper(stack, place) or takes_items(stack, place)
    )


class SlowWrapper:
    """A wrapper around the environment takes time of its own, which its repair would save."""

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        share, lines = evidence.where(_in_wrapper)
        because = f"the wrapper's own code takes {percent(share)}"
        return Finding(
            "slow wrapper", "compute less in the wrapper, or in C", gain((share, 0)), because, lines
        )


class CopiesInLoop:
    """Lines that copy between devices, or convert, take time that a copy made once would save.

    A large copy also slows what follows it: by how much is measured here, with a copy of as many bytes.
    """

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        share, lines = evidence.where(_copies)
        because = f"copies and conversions take {percent(share)}"
        change = "copy once before the loop, or only the rows used"
        expected = gain((share, 0), (self._reloading(evidence, share), 0)) if share else 1.0
        return Finding("copies in the loop", change, expected, because, lines)

    @staticmethod
    def _reloading(evidence: Evidence, share: float) -> float:
        """Return the share of the time by which the rest of the loop is slower for the copies in it, at least."""
        trained, bursts = trained_by(evidence), evidence.bursts_per_s()
        if trained is None or not bursts or share / bursts > _MOST_COPYING_S:
            return 0.0
        network = trained.network()
        after = [network.step(trained.rows), network.forward(trained.copies), environments(trained.copies)]
        return min(0.9 * (1 - share), bursts * reload_s(after, copying(share / bursts)))


class FrequentEvaluation:
    """Evaluations take time of the training."""

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        share, lines = evidence.where(lambda stack, place: place.piece is Piece.EVALUATION)
        because = f"evaluation takes {percent(share)}"
        change = f"evaluate {_FEWER} times less often"
        return Finding("frequent evaluation", change, gain((share, 1 / _FEWER)), because, lines)


class FrequentLogging:
    """Logging, saving and rendering take time of the training."""

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        share, lines = evidence.where(lambda stack, place: place.piece is Piece.LOGGING)
        because = f"logging and rendering take {percent(share)}"
        change = f"log and render {_FEWER} times less often"
        return Finding("frequent logging", change, gain((share, 1 / _FEWER)), because, lines)
