"""What claims may rest on of a comparison: "faster" only where this project was shown to learn no less."""

from pathlib import Path

import pytest

from harness.claims.comparisons import gains
from harness.compare import Part
from harness.equal_steps import FASTER, LEARNS_LESS, NOT_COMPARED
from tests.harness.claims.rows import compared, frame_of


@pytest.mark.parametrize(
    ("stored", "part", "verdict"),
    [
        (FASTER, Part.TRAINING, "faster"),
        (LEARNS_LESS, Part.TRAINING, "no verdict"),
        (NOT_COMPARED, Part.TRAINING, "no verdict"),
        ("slower", Part.TRAINING, "slower"),
        ("no verdict", Part.TRAINING, "no verdict"),
        # Of parts that train nothing there are no returns to compare.
        (NOT_COMPARED, Part.LEARNER_AND_REPLAY, "faster"),
        (NOT_COMPARED, Part.REPLAY, "faster"),
        ("slower", Part.REPLAY, "slower"),
    ],
)
def test_a_training_is_faster_only_where_it_learns_no_less(
    tmp_path: Path, stored: str, part: Part, verdict: str
) -> None:
    frame = frame_of(tmp_path, compared(2.0, stored, primitive=str(part)))
    (gain,) = gains(frame, "sb3")
    assert (gain.ratio.value, gain.verdict) == (2.0, verdict)
