import numpy as np
import pytest

from placerl.primitives.replay import LinearSchedule


def test_runs_straight_then_level() -> None:
    schedule = LinearSchedule(0.4, 1.0, 10)
    assert [schedule(step) for step in (0, 5, 10, 1000)] == pytest.approx([0.4, 0.7, 1.0, 1.0])


@pytest.mark.parametrize(("initial", "final"), [(0.2, 0.85), (0.1, 0.45), (0.4, 1)])
def test_the_end_is_reached_exactly(initial: float, final: float) -> None:
    schedule = LinearSchedule(initial, final, 20)
    assert [schedule(20), schedule(21), *schedule.values(19, 100)[1:]] == [final] * 101
    assert schedule(19) < final


@pytest.mark.parametrize("count", [3, 100])
def test_many_values_are_those_of_calls(count: int) -> None:
    schedule = LinearSchedule(0.4, 1.0, 57)
    assert schedule.values(11, count) == [schedule(step) for step in range(11, 11 + count)]


def test_refuses_no_steps() -> None:
    with pytest.raises(ValueError, match="steps"):
        LinearSchedule(0.4, 1.0, 0)


@pytest.mark.parametrize("name", ["initial", "final"])
@pytest.mark.parametrize("value", ["0.4", None, True, np.nan, np.inf])
def test_refuses_ends_that_are_no_finite_numbers(name: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: found .*; allowed: "):
        LinearSchedule(**{"initial": 0.4, "final": 1.0, "steps": 10} | {name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [True, 2.5, "3", None, -1])
def test_refuses_steps_that_are_no_count(steps: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^steps: found .*; allowed: "):
        LinearSchedule(0.4, 1.0, steps)  # type: ignore[arg-type]
