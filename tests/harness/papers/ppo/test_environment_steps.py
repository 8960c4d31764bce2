"""Environment steps here and in processes of their own: what is timed, and the verdict."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers.base import Outcome
from placerl.harness.papers.ppo import environment_steps
from tests.harness.old_form import details_of, row_of
from tests.harness.papers.rows import frame_of


def test_a_step_is_checked_against_a_twin() -> None:
    case = environment_steps.case("hopper-ppo", 0, "here")
    made, zeros = case.setup(), np.zeros((1, 11))
    case.check(made)
    with pytest.raises(AssertionError):
        case.check(made)  # which has gone on, as no twin has
    with pytest.raises(AssertionError):
        case.check(SimpleNamespace(step=lambda actions: (zeros,)))
    case.close(made)


@pytest.mark.slow
def test_steps_are_timed_here_and_in_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment_steps, "WORKLOADS", ("hopper-ppo",))
    made = environment_steps.measured(0.0, silent)
    assert [(row.backend, details_of(row)["null"]) for row in made] == [
        ("this process", False),
        ("this process", True),
        ("1 processes", False),
        ("4 processes", False),
        ("8 processes", False),
    ]
    assert all(row.status in ("ok", "too_noisy") for row in made)


def environment_rows(agents: int, longer: float) -> list[Row]:
    """Calls that step `agents` environments in processes; a step of one takes `longer` times a step in this process.

    The second measurement of the latter is slower by 0.4%, so that taking it for the first one changes the factor.
    """
    made = []
    for number, null, time_s in ((0, False, 1.0), (0, True, 1.004), (agents, False, agents * longer)):
        pace = 11 if number else 7
        samples = tuple(time_s * (1 + 0.01 * (pace * i % 30) / 30) for i in range(30))
        made.append(
            row_of(
                suite="claim",
                workload="hopper-ppo",
                primitive="environment.step",
                quantity="time_per_call",
                unit="s",
                provenance=Provenance.MEASURED,
                value=time_s,
                samples=samples,
                details={"experiment": environment_steps.EXPERIMENT, "agents": number, "null": null},
            )
        )
    return made


@pytest.mark.parametrize(
    ("longer", "outcome"),
    [
        (8.0, Outcome.IN_KIND),  # a call takes 32 times as long
        (6.6, Outcome.IN_KIND),
        (4.2, Outcome.IN_KIND),  # half of it
        (4.0, Outcome.CONSISTENT),
        (3.8, Outcome.CONSISTENT),  # but a call 15 times
        (2.0, Outcome.CONSISTENT),
        (1.02, Outcome.CONSISTENT),  # a call takes 4.1 times as long
        (1.0, Outcome.NO_VERDICT),  # a call takes half of it, within its interval
        (0.95, Outcome.NOT_REPRODUCED),  # less than half of it by either reading
        (0.5, Outcome.NOT_REPRODUCED),
    ],
)
def test_a_step_is_a_call_or_its_share(longer: float, outcome: Outcome, tmp_path: Path) -> None:
    found = environment_steps.EnvironmentStepsDiffer().judge(frame_of(tmp_path, *environment_rows(4, longer)))
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx([longer, 4 * longer], rel=1e-3)
    assert "within a factor of 1.25 of 8; in kind: at least 4 times as long" in found.explanation


@pytest.mark.parametrize(("eight", "outcome"), [(1.0, Outcome.CONSISTENT), (0.45, Outcome.NOT_REPRODUCED)])
def test_one_number_of_environments_that_agrees_is_a_reading(
    eight: float, outcome: Outcome, tmp_path: Path
) -> None:
    """A call that steps 8 takes 8 times as long as a step here, or 3.6 times; one that steps 4 takes 2 times."""
    rows = [*environment_rows(4, 0.5), environment_rows(8, eight)[-1]]
    found = environment_steps.EnvironmentStepsDiffer().judge(frame_of(tmp_path, *rows))
    assert (found.outcome, len(found.ours)) == (outcome, 4)


@pytest.mark.parametrize("longer", [8.0, 0.5])
def test_a_single_environment_is_listed_and_not_judged(longer: float, tmp_path: Path) -> None:
    found = environment_steps.EnvironmentStepsDiffer().judge(frame_of(tmp_path, *environment_rows(1, longer)))
    assert found.outcome is Outcome.NOT_RUN
    assert [number.value for number in found.ours] == pytest.approx([longer], rel=1e-3)
    assert "at least 4 environments" in found.explanation


@pytest.mark.parametrize("lacking", range(3))
def test_steps_are_not_judged_without_all_three_rows(lacking: int, tmp_path: Path) -> None:
    made = environment_rows(4, 8.0)
    del made[lacking]
    assert (
        environment_steps.EnvironmentStepsDiffer().judge(frame_of(tmp_path, *made)).needs
        == environment_steps.NEEDS_STEPS
    )
