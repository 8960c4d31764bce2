"""Tells the user of a prioritised buffer when no TD errors come back, so that priorities never change."""

import warnings

SAMPLES = 100
"""Calls of `sample` in a row that no TD errors follow after which the buffer warns, once."""


class WarnsUnanswered:
    """Counts the samples that no TD errors followed.

    Attributes:
        answer: the method that takes TD errors.
        unprioritised: the library's class for algorithms that send none.
    """

    answer: str
    unprioritised: str
    _unanswered = 0

    def _sampled(self) -> None:
        self._unanswered += 1
        if self._unanswered == SAMPLES:
            warnings.warn(
                f"{type(self).__name__}: found {SAMPLES} samples without {self.answer}, so no priority changes; "
                f"allowed: an algorithm that sends TD errors back. Others take {self.unprioritised}",
                stacklevel=3,
            )

    def _answered(self) -> None:
        self._unanswered = 0
