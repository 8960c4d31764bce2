"""Chooses what takes part in each round of a study's final, so that rounds are spent where they decide."""

from collections.abc import Collection, Mapping

from placerl.harness.measure.elimination import Elimination
from placerl.harness.measure.statistics import FEWEST_SAMPLES


class Finalists:
    """The trainings of a final that may still be the fastest, as `measure.protocol.measure` asks for them (`narrow`).

    A training that is clearly slower than the leader in the same rounds (`harness.measure.elimination`) is left out,
    with the pieces that only it is predicted from.

    The first `FEWEST_SAMPLES` rounds leave out nothing.

    Args:
        pieces: for each training, by the name of its case, the names of the cases from which it is predicted.
        left: the trainings that earlier rounds did not leave out; None: all.
    """

    def __init__(self, pieces: Mapping[str, Collection[str]], left: Collection[str] | None = None) -> None:
        self._pieces, self._elimination = pieces, Elimination(pieces)
        if left is not None:
            self._elimination.left = [name for name in pieces if name in left]

    @property
    def left(self) -> list[str]:
        """Return the names of the trainings that were not left out."""
        return self._elimination.left

    def __call__(
        self, seconds: Mapping[str, Mapping[int, float]], cost_s: Mapping[str, float], left_s: float
    ) -> set[str]:
        """Return the names of the cases of the next round; empty if the time is over, or one training is left.

        Args:
            seconds: seconds so far, by case and by round: of a piece's call, and of a training's gradient step.
            cost_s: seconds that each case adds to a round; a case that failed is not in it.
            left_s: remaining seconds.
        """
        rates = {
            name: {number: 1 / s for number, s in seconds[name].items()}
            for name in self._pieces
            if name in cost_s
        }
        if rates and max(map(len, seconds.values())) < FEWEST_SAMPLES:
            return set(cost_s)
        self._elimination.drop(rates)
        able = [name for name in self.left if name in cost_s]
        names = {one for name in able for one in (name, *self._pieces[name]) if one in cost_s}
        return names if len(able) > 1 and sum(cost_s[name] for name in names) <= left_s else set()
