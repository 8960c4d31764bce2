"""The factors that PPO gives in passing (5.3.1), judged from made-up rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome
from harness.papers.ppo import environment_steps, factors, shared_trunk
from tests.harness.papers.rows import frame_of
from tests.harness.papers.test_verdicts import verdict


def gradient_steps(separate_s: float, null_s: float = 1.0, batch_size: int = 512) -> list[Measurement]:
    """Steps of separate networks, where one of shared layers takes a second."""
    sides = (((True, False), 1.0, 7), ((True, True), null_s, 11), ((False, False), separate_s, 13))
    return [
        Measurement(
            suite="claim",
            workload="hopper-ppo",
            primitive="learner.step",
            backend="native",
            device="cpu",
            batch_size=batch_size,
            quantity="time_per_call",
            unit="s",
            provenance=Provenance.MEASURED,
            value=time_s,
            samples=tuple(time_s * (1 + 0.01 * (pace * i % 30) / 30) for i in range(30)),
            details={"experiment": shared_trunk.EXPERIMENT, "shared": shared, "null": null},
        )
        for (shared, null), time_s, pace in sides
    ]


@pytest.mark.parametrize(
    ("separate_s", "null_s", "outcome"),
    [
        (2.0, 1.0, Outcome.REPRODUCED),
        (1.7, 1.0, Outcome.REPRODUCED),
        (1.4, 1.0, Outcome.IN_KIND),
        (1.65, 1.0, Outcome.REPRODUCED),  # a quarter less than twice, and more
        (1.55, 1.0, Outcome.IN_KIND),
        (2.4, 1.0, Outcome.REPRODUCED),
        (2.6, 1.0, Outcome.IN_KIND),
        (1.04, 1.0, Outcome.IN_KIND),  # any gain
        (0.96, 1.0, Outcome.NOT_REPRODUCED),
        (3.0, 1.0, Outcome.IN_KIND),
        (1.0, 1.0, Outcome.NO_VERDICT),
        (1.4, 1.5, Outcome.NO_VERDICT),  # the same network differs from itself by more
        (0.8, 1.0, Outcome.NOT_REPRODUCED),
    ],
)
def test_separate_networks_over_shared_ones(
    separate_s: float, null_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("PPO-5.3.1-shared", tmp_path, *gradient_steps(separate_s, null_s))
    assert found.finding.outcome is outcome
    assert found.finding.ours[0].value == pytest.approx(separate_s, rel=0.02)
    assert (found.provenance, found.rows) == ("measured", (0, 1, 2))


def test_one_mini_batch_on_which_sharing_is_slower_refutes_it(tmp_path: Path) -> None:
    made = gradient_steps(2.0) + gradient_steps(0.8, batch_size=64)
    assert verdict("PPO-5.3.1-shared", tmp_path, *made).finding.outcome is Outcome.NOT_REPRODUCED


@pytest.mark.parametrize("lacking", range(3))
def test_shared_layers_are_not_judged_without_all_three_rows(lacking: int, tmp_path: Path) -> None:
    made = gradient_steps(2.0)
    del made[lacking]
    assert verdict("PPO-5.3.1-shared", tmp_path, *made).needs == factors.NEEDS_NETWORKS


def environment_rows(agents: int, longer: float) -> list[Measurement]:
    """Calls that step `agents` environments in processes; a step of one takes `longer` times a step in this process.

    The second measurement of the latter is slower by 0.4%, so that taking it for the first one changes the factor.
    """
    made = []
    for number, null, time_s in ((0, False, 1.0), (0, True, 1.004), (agents, False, agents * longer)):
        pace = 11 if number else 7
        samples = tuple(time_s * (1 + 0.01 * (pace * i % 30) / 30) for i in range(30))
        made.append(
            Measurement(
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
        (8.0, Outcome.REPRODUCED),
        (9.5, Outcome.REPRODUCED),
        (9.8, Outcome.REPRODUCED),  # within a quarter of eight
        (10.3, Outcome.IN_KIND),
        (6.6, Outcome.REPRODUCED),
        (6.2, Outcome.IN_KIND),
        (11.0, Outcome.IN_KIND),
        (5.0, Outcome.IN_KIND),
        (4.2, Outcome.IN_KIND),  # half of it
        (3.8, Outcome.NOT_REPRODUCED),
        (4.0, Outcome.NO_VERDICT),
        (3.0, Outcome.NOT_REPRODUCED),
        (0.5, Outcome.NOT_REPRODUCED),
    ],
)
@pytest.mark.parametrize("agents", [1, 4])
def test_steps_by_way_of_processes(agents: int, longer: float, outcome: Outcome, tmp_path: Path) -> None:
    found = factors.environment_step(frame_of(tmp_path, *environment_rows(agents, longer)))
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx([longer], rel=1e-3)
    assert "within a factor of 1.25 of 8; in kind: at least 4 times as long" in found.explanation


@pytest.mark.parametrize("lacking", range(3))
def test_steps_are_not_judged_without_all_three_rows(lacking: int, tmp_path: Path) -> None:
    made = environment_rows(4, 8.0)
    del made[lacking]
    assert factors.environment_step(frame_of(tmp_path, *made)).needs == factors.NEEDS_STEPS


@pytest.mark.parametrize("experiment", ["", "z"], ids=["before", "after"])
def test_rows_of_another_experiment_are_left_out(experiment: str, tmp_path: Path) -> None:
    def other(rows: list[Measurement]) -> list[Measurement]:
        return [replace(row, details=row.details | {"experiment": experiment}) for row in rows]

    steps = frame_of(tmp_path / "steps", *environment_rows(4, 8.0), *other(environment_rows(4, 1.0)))
    assert factors.environment_step(steps).outcome is Outcome.REPRODUCED
    networks = frame_of(tmp_path / "networks", *gradient_steps(2.0), *other(gradient_steps(0.5)))
    assert factors.shared_networks_train_faster(networks).outcome is Outcome.REPRODUCED
