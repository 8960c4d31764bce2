"""Causes in the shape of the work: tiny batches, float64, and a single environment."""

import re

from placerl.harness.why.causes.base import Evidence, Finding, gain, percent
from placerl.harness.why.causes.caches import environments, reload_s
from placerl.harness.why.causes.timed import gather_s, interleaved
from placerl.harness.why.causes.trained import trained_by
from placerl.harness.why.piece import Piece
from placerl.harness.why.pieces import Place, is_users
from placerl.harness.why.stacks import Stack

_BATCH, _TINY = 128, 64
_COPIES = 8
_LEAST_SHARE = 0.05
_VECTOR = re.compile(r"/(gymnasium/vector|common/vec_env)/")


class TinyBatches:
    """Gradient steps are so small that their calls cost more than their arithmetic.

    With a batch k times as large every k-th time, as many items are trained on. The times of a step of the script's
    shapes with both batch sizes are measured here, and what acting takes longer after such a step than without one.
    """

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        trained, share = trained_by(evidence), evidence.profile.share(Piece.GRADIENT)
        if trained is None or trained.rows >= _TINY or share < _LEAST_SHARE:
            return None
        times = _BATCH / trained.rows
        network = trained.network()
        small, large = interleaved(network.step(trained.rows), network.step(_BATCH))
        width = trained.item_width
        gathers = gather_s(_BATCH, width, 1) / gather_s(trained.rows, width, 1)
        sampling = evidence.profile.share(Piece.SAMPLING)
        acting = [network.forward(trained.copies), environments(trained.copies)]
        reloading = min(
            evidence.profile.share(Piece.INFERENCE, Piece.ENVIRONMENT),
            evidence.bursts_per_s() * reload_s(acting, network.step(trained.rows)),
        )
        expected = gain((share, large / small / times), (sampling, gathers / times), (reloading, 1 / times))
        because = f"gradient steps take {percent(share)}; one of {_BATCH} rows costs {large / small:.2g} times as much"
        change = f"batches of {_BATCH} rows, {times:.3g} times less often"
        return Finding("tiny batches", change, expected, because, _lines(evidence, Piece.GRADIENT))


class DoublePrecision:
    """The networks compute in float64; the times of the script's shapes in both data types are measured here."""

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        trained = trained_by(evidence)
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
    loop around it; the environments themselves cost as much as before, but only the first of them runs right after the
    network, which is slower.
    """

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        trained, share = trained_by(evidence), evidence.profile.share(Piece.INFERENCE)
        if trained is None or trained.copies > 1 or share < _LEAST_SHARE:
            return None
        network = trained.network()
        one, many = interleaved(network.forward(1), network.forward(_COPIES))
        around = evidence.profile.share(Piece.INSERTION, Piece.OTHER, Piece.TRANSFERS)
        vector, _ = evidence.where(_in_vector)
        remains = many / one / _COPIES
        reloading = min(
            evidence.profile.share(Piece.ENVIRONMENT),
            evidence.per_second(gradient=False) * reload_s([environments(1)], network.forward(1)),
        )
        expected = gain((share, remains), (around + vector, 1 / _COPIES), (reloading, 1 / _COPIES))
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
