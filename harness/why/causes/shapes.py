"""Causes in the shape of the work: tiny batches, float64, and a single environment."""

import re
from dataclasses import dataclass
from math import prod
from typing import Any

from placerl.harness.why.causes.base import Evidence, Finding, gain, percent
from placerl.harness.why.causes.timed import Network, gather_s, interleaved
from placerl.harness.why.piece import Piece
from placerl.harness.why.pieces import Place, is_users
from placerl.harness.why.stacks import Stack

_BATCH, _TINY = 128, 64
_COPIES = 8
_LEAST_SHARE = 0.05
_VECTOR = re.compile(r"/(gymnasium/vector|common/vec_env)/")


@dataclass(frozen=True)
class _Trained:
    """The largest network of a script, and how it is trained.

    Attributes:
        shapes: shapes of its parameters.
        dtype: their data type.
        rows: batch size.
        copies: environments that step together.
        threads: threads of PyTorch.
        convolutions: of each convolution, the shape of its weights and of an item that it takes, stride and padding.
    """

    shapes: list[list[int]]
    dtype: str
    rows: int
    copies: int
    threads: int
    convolutions: list[dict[str, Any]]

    @property
    def item_width(self) -> int:
        """Return how many numbers an item of a batch has."""
        return prod(self.convolutions[0]["input"]) if len(self.shapes[0]) > 2 else self.shapes[0][-1]

    def network(self, dtype: str = "") -> Network:
        """Return a network of these shapes for timing, by default of the script's data type."""
        return Network(self.shapes, dtype or self.dtype, self.threads, self.convolutions)


def _trained(evidence: Evidence) -> _Trained | None:
    """Return how a script trains; None where its layers are of another kind, or on a device that is not here."""
    optimizers = evidence.facts("optimizer")
    rows = max((fact["rows"] for fact in evidence.facts("batch")), default=0)
    if not optimizers or not rows:
        return None
    fact = max(optimizers, key=lambda one: len(one["shapes"]))
    kinds = {tuple(kind) for kind in fact["kinds"]}
    by_weight = {tuple(one["weight"]): one for one in evidence.facts("convolution")}
    large = [tuple(shape) for shape in fact["shapes"] if len(shape) > 2]
    known = any(len(shape) == 2 for shape in fact["shapes"]) and all(
        len(shape) == 4 and shape in by_weight for shape in large
    )
    if not known or len(kinds) != 1 or next(iter(kinds))[1] != "cpu":
        return None
    copies = max((one["count"] for one in evidence.facts("environment")), default=1)
    threads = max((one["torch"] for one in evidence.facts("threads")), default=1)
    convolutions = [by_weight[shape] for shape in large]
    return _Trained(fact["shapes"], next(iter(kinds))[0], rows, copies, threads, convolutions)


class TinyBatches:
    """Gradient steps are so small that their calls cost more than their arithmetic.

    With a batch k times as large every k-th time, as many items are trained on. The times of a step of the script's
    shapes with both batch sizes are measured here.
    """

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        trained, share = _trained(evidence), evidence.profile.share(Piece.GRADIENT)
        if trained is None or trained.rows >= _TINY or share < _LEAST_SHARE:
            return None
        times = _BATCH / trained.rows
        network = trained.network()
        small, large = interleaved(network.step(trained.rows), network.step(_BATCH))
        width = trained.item_width
        gathers = gather_s(_BATCH, width, 1) / gather_s(trained.rows, width, 1)
        sampling = evidence.profile.share(Piece.SAMPLING)
        expected = gain((share, large / small / times), (sampling, gathers / times))
        because = f"gradient steps take {percent(share)}; one of {_BATCH} rows costs {large / small:.2g} times as much"
        change = f"batches of {_BATCH} rows, {times:.3g} times less often"
        return Finding("tiny batches", change, expected, because, _lines(evidence, Piece.GRADIENT))


class DoublePrecision:
    """The networks compute in float64; the times of the script's shapes in both data types are measured here."""

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        trained = _trained(evidence)
        if trained is None or trained.dtype != "float64":
            return None
        double, single = (trained.network(dtype) for dtype in ("float64", "float32"))
        slow, fast = interleaved(double.step(trained.rows), single.step(trained.rows))
        slow_act, fast_act = interleaved(double.forward(trained.copies), single.forward(trained.copies))
        gradient, inference = evidence.profile.share(Piece.GRADIENT), evidence.profile.share(Piece.INFERENCE)
        expected = gain((gradient, fast / slow), (inference, fast_act / slow_act))
        because = f"gradient steps take {percent(gradient)}, and {fast / slow:.0%} of that in float32"
        return Finding("float64", "compute in float32", expected, because, _lines(evidence, Piece.GRADIENT))


class OneEnvironment:
    """A single environment: what is done once for all environments is done for each step.

    With more of them, a step of all costs one call of the network, whose times are measured here, and one round of the
    loop around it; the environments themselves cost as much as before.
    """

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        trained, share = _trained(evidence), evidence.profile.share(Piece.INFERENCE)
        if trained is None or trained.copies > 1 or share < _LEAST_SHARE:
            return None
        network = trained.network()
        one, many = interleaved(network.forward(1), network.forward(_COPIES))
        around = evidence.profile.share(Piece.INSERTION, Piece.OTHER, Piece.TRANSFERS)
        vector, _ = evidence.where(_in_vector)
        remains = many / one / _COPIES
        expected = gain((share, remains), (around + vector, 1 / _COPIES))
        because = (
            f"inference takes {percent(share)}; {_COPIES} at once cost {many / one:.2g} times as much as one"
        )
        change = f"step {_COPIES} environments together (gymnasium.make_vec)"
        return Finding("one environment", change, expected, because, _lines(evidence, Piece.INFERENCE))


def _in_vector(stack: Stack, place: Place) -> bool:
    """Return whether a stack is in the code around several environments, and in none of them."""
    if place.piece is not Piece.ENVIRONMENT:
        return False
    environment = [
        frame for frame in stack.frames if "/gymnasium/" in frame.file or "/vec_env/" in frame.file
    ]
    return bool(environment) and bool(_VECTOR.search(environment[-1].file)) and not is_users(stack.frames[-1])


def _lines(evidence: Evidence, piece: Piece) -> tuple:
    return evidence.where(lambda stack, place: place.piece is piece)[1]
