"""Chooses what takes part in each round of a study's final, so that rounds are spent where they decide."""

from collections.abc import Callable, Collection, Mapping

from placerl.harness.measure.elimination import Elimination


class Finalists:
    """The trainings of a final that may still be the fastest, as `measure.protocol.measure` asks for them (`narrow`).

    A training that is clearly slower than the leader in the same rounds (`harness.measure.elimination`) is left out,
    with the pieces that only it is predicted from.

    Args:
        pieces: for each training, by the name of its case, the names of the cases from which it is predicted.
        steps: returns the gradient steps of a call of a training, given the name of its case.
    """

    def __init__(self, pieces: Mapping[str, Collection[str]], steps: Callable[[str], int]) -> None:
        self._pieces, self._steps, self._elimination = pieces, steps, Elimination(pieces)

    @property
    def left(self) -> list[str]:
        """Return the names of the trainings that were not left out."""
        return self._elimination.left

    def __call__(
        self, seconds: Mapping[str, Mapping[int, float]], cost_s: Mapping[str, float], left_s: float
    ) -> set[str]:
        """Return the names of the cases of the next round; empty if the time is over, or one training is left.

        Args:
            seconds: seconds per call so far, by case and by round.
            cost_s: seconds that each case adds to a round; a case that failed is not in it.
            left_s: remaining seconds.
        """
        rates = {
            name: {number: self._steps(name) / s for number, s in seconds[name].items()}
            for name in self._pieces
            if name in cost_s
        }
        self._elimination.drop(rates)
        able = [name for name in self.left if name in cost_s]
        names = {one for name in able for one in (name, *self._pieces[name]) if one in cost_s}
        return names if len(able) > 1 and sum(cost_s[name] for name in names) <= left_s else set()
