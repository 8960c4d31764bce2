"""The bench of `rent`: each training is predicted from the card and from the curves of the other seeds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness import workloads
from placerl.harness.cli.bench.rent_bench import SUITE, WORKLOADS, RentedTraining, compared, table
from placerl.harness.compare import registry
from placerl.harness.core.provenance import Provenance
from placerl.harness.machines import renting
from placerl.harness.store.rows import LearningCurve
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.compare.test_curves import Learner
from tests.harness.machines.test_rates import NAME, committed_run, slower
from tests.harness.machines.test_renting import rate


def trained(seed: int, gaps: int, arrives: bool = True) -> LearningCurve:
    """A training of 100 gradient steps/s that is evaluated each 100 environment steps, 25 gradient steps."""
    item, count = workloads.load(NAME), gaps + 5
    returns = [20.0] * gaps + [500.0 if arrives else 20.0] * 5
    return LearningCurve(
        suite=SUITE,
        workload=NAME,
        primitive="training",
        batch_size=item.training.batch_size,
        quantity="evaluation_return",
        provenance=Provenance.MEASURED,
        value=returns[-1],
        system="placerl",
        seed=seed,
        gradient_steps=100 * count // item.training.update_interval,
        environment_steps=100 * count,
        steps_at=[100 * (n + 1) for n in range(count)],
        seconds_at=[(n + 1) / item.training.update_interval for n in range(count)],
        returns_at=returns,
        threshold=475.0,
        budget_s=300.0,
        settings_from="the workload's, as shipped",
    )


def test_each_training_is_predicted_from_the_others() -> None:
    rows = compared(workloads.load(NAME), rate(50, 25, 100), [trained(0, 10), trained(1, 20), trained(2, 20)])
    interval = workloads.load(NAME).training.update_interval
    assert [row.achieved_s for row in rows] == pytest.approx([one / interval for one in (11, 21, 21)])
    # At half of the rate that is achieved; two seeds that differ and a rate that is not known meet in the middle.
    between = (11 * 21) ** 0.5
    expected = [2 * one / interval for one in (21, between, between)]
    assert [row.value for row in rows] == pytest.approx(expected, rel=0.02)
    assert [row.held for row in rows] == [False, True, True]
    assert {round(row.predicted_gps / row.achieved_gps, 6) for row in rows} == {0.5}


def test_seeds_that_never_arrive_predict_nothing_and_arrive_at_nothing() -> None:
    rows = compared(workloads.load(NAME), rate(50, 25, 100), [trained(0, 10), trained(1, 20, arrives=False)])
    assert [(row.value is None, row.achieved_s is None) for row in rows] == [(True, False), (False, True)]
    assert not any(row.held for row in rows)
    assert "| none arrived |" in table([NAME], rows)


def test_an_interval_that_is_open_holds_a_seed_that_did_not_arrive() -> None:
    trainings = [trained(0, 10), trained(1, 20, arrives=False), trained(2, 20, arrives=False)]
    rows = compared(workloads.load(NAME), rate(50, 25, 100), trainings)
    assert [row.high for row in rows] == [None] * 3
    assert [row.held for row in rows] == [False, True, True]


@pytest.mark.parametrize(("times", "said"), [(1.2, "met"), (1.3, "missed")])
def test_the_goal_is_judged_once_every_workload_arrived(times: float, said: str) -> None:
    rows = [
        RentedTraining(
            suite=SUITE,
            workload=name,
            primitive="training",
            quantity="predicted_time_to_threshold",
            provenance=Provenance.MODELLED,
            value=times,
            seed=0,
            achieved_s=1.0,
            held=False,
            predicted_gps=1.0,
            achieved_gps=1.0,
            own_kind=False,
        )
        for name in WORKLOADS
    ]
    assert f"at most 25%, {said})" in table(WORKLOADS, rows)
    assert "not judged on fewer" in table(WORKLOADS, rows[1:])
    assert "not judged where only machines" in table(WORKLOADS, [replace(rows[0], own_kind=True), *rows[1:]])


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The card of a machine of another kind than the only one known, and twice as slow."""
    monkeypatch.setattr(renting, "COMMITTED", tmp_path / "committed")
    committed_run()[0].write(tmp_path / "committed" / "known.json")
    there = slower(2)
    facts = there.facts.model_copy(update={"cpu": "Another processor"})
    there.model_copy(update={"facts": facts}).write(tmp_path / "card.json")
    return tmp_path / "card.json"


def test_the_command_trains_once_and_goes_on(
    placerl: Placerl, tmp_path: Path, card: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        registry, "own_worker", lambda mapping, **_: Learner(lambda steps: 500 if steps > 20_000 else 20)
    )
    asked = (
        "bench",
        "rent",
        "--card",
        str(card),
        "--workloads",
        NAME,
        "--results",
        str(tmp_path / "results"),
    )
    outcome = placerl(*asked, "--seeds", "2")
    assert outcome.status == 0, outcome.err
    (line,) = (one for one in outcome.out.splitlines() if one.startswith(f"| {NAME}"))
    assert len(line) <= 60
    assert "not judged on fewer" in outcome.out
    rows = json.loads(placerl(*asked, "--seeds", "3", "--json").out)
    assert [row["seed"] for row in rows if row["kind"] == "rented_training"] == [0, 1, 2]
    assert "The run holds every cell" in placerl(*asked, "--seeds", "3").err


def test_a_machine_of_the_same_kind_predicts_where_no_other_is_known(
    placerl: Placerl, tmp_path: Path, card: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        registry, "own_worker", lambda mapping, **_: Learner(lambda steps: 500 if steps > 20_000 else 20)
    )
    asked = ("bench", "rent", "--workloads", NAME, "--seeds", "2", "--json")

    def own_kind(results: str) -> set[bool]:
        rows = json.loads(placerl(*asked, "--card", str(card), "--results", str(tmp_path / results)).out)
        return {row["own_kind"] for row in rows if row["kind"] == "rented_training"}

    assert own_kind("another") == {False}
    slower(2).write(card)
    assert own_kind("same") == {True}


def test_what_cannot_be_predicted_is_refused_before_anything_is_trained(placerl: Placerl, card: Path) -> None:
    refused(
        placerl("bench", "rent", "--card", str(card), "--workloads", "pendulum-sac"),
        "--known",
        "pendulum-sac",
    )
    refused(placerl("bench", "rent", "--card", str(card), "--workloads", "pong"), "--workloads", "pong")
