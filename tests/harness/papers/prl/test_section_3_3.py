"""What PRL's runtime hides behind other work: verdicts from made-up rows, and rows from a real measurement."""

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from placerl.harness import workloads
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import Schedule
from placerl.harness.papers import Outcome
from placerl.harness.papers.prl import section_3_3
from tests.harness.old_form import row_of
from tests.harness.papers.rows import frame_of


def gain(part: str, verdict: str, workload: str = "cartpole-dqn") -> Row:
    return row_of(
        suite=Suite.CLAIM,
        workload=workload,
        primitive="training",
        backend="placerl",
        device="fpga-fpga-cpu",
        batch_size=32,
        quantity="throughput_ratio",
        provenance=Provenance.SIMULATED,
        value=1.1,
        low=1.05,
        high=1.15,
        details={
            "experiment": section_3_3.EXPERIMENT,
            "part": part,
            "verdict": verdict,
            "hidden_s": 1e-4 if part in section_3_3.OFF else None,
            "seconds_with": [1e-3],
        },
    )


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        (("faster", "faster"), Outcome.IN_KIND),
        (("faster", "no verdict"), Outcome.NO_VERDICT),
        (("faster", "slower"), Outcome.NOT_REPRODUCED),
    ],
)
def test_every_part_must_bring_throughput(
    tmp_path: Path, verdicts: tuple[str, str], outcome: Outcome
) -> None:
    rows = [gain(part, verdict) for part, verdict in zip(section_3_3.OFF, verdicts, strict=True)]
    streamed = gain(section_3_3.STREAMED, "slower")
    found = section_3_3.OverlapHidesTime().judge(frame_of(tmp_path, *rows, streamed))
    assert found.outcome is outcome, "streaming, which is modelled, is not judged"
    assert len(found.ours) == 3
    assert "at most 10.00% of an iteration" in found.explanation


def test_without_rows_nothing_is_judged(tmp_path: Path) -> None:
    assert section_3_3.OverlapHidesTime().judge(frame_of(tmp_path)).outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("other", "outcome"),
    [("faster", Outcome.CONSISTENT), ("slower", Outcome.NO_VERDICT), ("no verdict", Outcome.NO_VERDICT)],
)
def test_modelled_gains_neither_reproduce_nor_refute(other: str, outcome: Outcome, tmp_path: Path) -> None:
    """Rows of a learner on the FPGA, as the experiment makes them."""
    parts = zip(section_3_3.OFF, ("faster", other), strict=False)
    rows = [replace(gain(part, verdict), provenance=Provenance.MODELLED) for part, verdict in parts]
    assert len(rows) == 2
    assert section_3_3.OverlapHidesTime().judge(frame_of(tmp_path, *rows)).outcome is outcome


def test_each_training_differs_from_the_first_in_the_option_of_its_part() -> None:
    on = asdict(section_3_3.ON)
    changed = {
        name: {key: value for key, value in asdict(schedule).items() if value != on[key]}
        for name, schedule in section_3_3.SIDES.items()
    }
    assert changed == {
        "": {},
        section_3_3.NULL: {},
        section_3_3.INSERTION: {"deferred_insertion": False},
        section_3_3.WEIGHTS: {"single_buffered": True},
        section_3_3.STREAMED: {"streamed": True},
    }
    given = {"overlap": 32, "deferred_insertion": True, "environments": "gymnasium"}
    assert section_3_3.ON.given() == given


class Steady:
    """A training whose iterations all take the same, set by its schedule: half as long again without deferral."""

    provenance = "simulated"

    def __init__(self, schedule: Schedule) -> None:
        self.wall_s = 1.0 if schedule.deferred_insertion else 1.5
        self.warm = self.closed = False

    def warm_up(self) -> None:
        self.warm = True

    def advance(self, gradient_steps: int) -> SimpleNamespace:
        assert self.warm
        terms_s = {"insert": 0.25, "write": 0.125, "publish": 0.5, "learner": 1.0}
        return SimpleNamespace(wall_s=self.wall_s * gradient_steps / 32, terms_s=terms_s)

    def close(self) -> None:
        self.closed = True


def test_a_part_is_judged_by_the_rounds_with_and_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    trainings: list[Steady] = []
    monkeypatch.setattr(section_3_3, "resolve", lambda schedule, *_: schedule)
    monkeypatch.setattr(section_3_3, "Training", lambda one: trainings.append(Steady(one)) or trainings[-1])
    rows = section_3_3.measure(workloads.load("cartpole-dqn"), 32, 0.0, lambda *_: None, rounds=45)
    assert len(trainings) == len(section_3_3.SIDES)
    assert all(training.closed for training in trainings)
    stated = {one.part: one for one in (section_3_3.EXPERIMENT.read(row.parameters) for row in rows)}
    insertion, weights, streamed = (stated[part] for part in (*section_3_3.OFF, section_3_3.STREAMED))
    assert (insertion.verdict, weights.verdict, streamed.verdict) == ("faster", "no verdict", "no verdict")
    assert (insertion.hidden_s, weights.hidden_s, streamed.hidden_s) == (0.375, 0.5, None)
    assert insertion.seconds_with == weights.seconds_without == [1.0] * 15, "the fewest, as no time is left"
    assert insertion.seconds_without == [1.5] * 15
    assert [row.value for row in rows] == pytest.approx([1.5, 1.0, 1.0])
    assert {row.provenance for row in rows} == {Provenance.SIMULATED}


@pytest.mark.slow
def test_each_part_is_switched_off_in_the_same_rounds() -> None:
    rows = section_3_3.measure(workloads.load("cartpole-dqn"), 32, 0.0, lambda *_: None, rounds=15)
    stated = [section_3_3.EXPERIMENT.read(row.parameters) for row in rows]
    assert [one.part for one in stated] == [*section_3_3.OFF, section_3_3.STREAMED]
    for row, one in zip(rows, stated, strict=True):
        assert one.rounds >= 15
        assert row.low <= row.value <= row.high
        assert (one.hidden_s is None) == (one.part == section_3_3.STREAMED)
        assert one.hidden_s is None or 0 < one.hidden_s < max(one.seconds_with)
