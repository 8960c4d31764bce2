"""The actors of a training whose whole rounds are one native call (`Fusion.ROUND`)."""

from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.actors.in_process import Collecting
from placerl.primitives.training.rounds import FusedRounds


class RoundActors(Collecting):
    """The environments and the policy of native rounds, which no one asks for steps.

    Args:
        rounds: runs the rounds.
    """

    def __init__(self, rounds: FusedRounds) -> None:
        self._rounds = rounds

    @property
    def environment_steps(self) -> int:  # type: ignore[override]
        """Return the number of environment steps taken so far, over all environments."""
        return self._rounds.environment_steps

    @property
    def environment_s(self) -> float:  # type: ignore[override]
        """Return the seconds spent so far in environments."""
        return self._rounds.spent_s()["environment"]

    @property
    def inference_s(self) -> float:  # type: ignore[override]
        """Return the seconds spent so far in choosing actions."""
        return self._rounds.spent_s()["infer"]

    def take_episodes(self) -> list[Episode]:
        """Return the episodes that ended since the last call, oldest first."""
        return [Episode(step, total) for step, total in self._rounds.take_episodes()]

    def close(self) -> None:
        """Do nothing: memory is freed with the object."""
