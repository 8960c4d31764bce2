import pytest

from primitives.replay import LinearSchedule


def test_runs_straight_then_level() -> None:
    schedule = LinearSchedule(0.4, 1.0, 10)
    assert [schedule(step) for step in (0, 5, 10, 1000)] == pytest.approx([0.4, 0.7, 1.0, 1.0])


def test_refuses_no_steps() -> None:
    with pytest.raises(ValueError, match="steps"):
        LinearSchedule(0.4, 1.0, 0)
