"""Verdicts on FIX VI-C from made-up rows."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.claims import Finding, Outcome, fixar21_training
from harness.fixed_point_throughput import TERMS
from harness.fixed_point_training import DYNAMIC, FIXED_16, FIXED_32, FLOAT, SWEEP, SWEPT
from harness.measurement import Measurement
from harness.provenance import Provenance
from tests.harness.claims.rows import frame_of


def run(
    curve: str, returns: list[float], seed: int = 0, name: str = "pendulum-ddpg", steps: int = 80
) -> Measurement:
    return Measurement(
        suite="claim",
        workload=name,
        primitive="training",
        backend=curve,
        device="cpu",
        batch_size=64,
        quantity="evaluation_return",
        unit="1",
        provenance=Provenance.MEASURED,
        value=returns[-1],
        samples=tuple(returns),
        details={"experiment": "FIX-F7", "seed": seed, "steps": steps, "delay": steps // 2,
                 "evaluation_interval": steps // 8},
    )  # fmt: skip


LEARNS = [-1000.0, -800, -600, -400, -300, -250, -220, -210, -200]
DIPS = [-1000.0, -800, -600, -400, -300, -900, -400, -220, -200]
FLAT = [-1000.0] * 9


def curves(dynamic: list[float], fixed_16: list[float], **more: object) -> list[Measurement]:
    shapes = {FLOAT: LEARNS, FIXED_32: LEARNS, FIXED_16: fixed_16, DYNAMIC: dynamic}
    return [run(curve, returns, seed, **more) for curve, returns in shapes.items() for seed in range(5)]  # type: ignore[arg-type]


Verdict = Callable[[list[Measurement]], Finding]


@pytest.fixture
def verdict(tmp_path: Path) -> Verdict:
    return lambda rows: fixar21_training.reward(frame_of(tmp_path, *rows))


def test_without_the_runs_there_is_no_verdict_on_the_reward(verdict: Verdict) -> None:
    assert verdict([run(FLOAT, LEARNS)]).outcome is Outcome.NOT_RUN


def test_the_dip_and_the_recovery_are_said(verdict: Verdict) -> None:
    finding = verdict(curves(DIPS, FLAT))
    assert finding.outcome is Outcome.IN_KIND
    assert "from -300 to -900 and ends at -200: a dip, made good" in finding.explanation
    assert len(finding.ours) == 7  # four returns, and what three of them are of the floats'


def test_two_seeds_have_no_interval_and_carry_no_verdict(verdict: Verdict) -> None:
    for fixed_16 in (FLAT, LEARNS):
        few = [row for row in curves(DIPS, fixed_16, name="hopper-ddpg-400-300") if row.details["seed"] < 2]
        finding = verdict(few)
        assert finding.outcome is Outcome.NO_VERDICT
        assert "fewer than 5 seeds" in finding.explanation
        assert "fixed 32 100%" in finding.explanation


@pytest.mark.parametrize(
    ("finals", "outcome"),
    [
        ([-200.0, -210, -190, -205, -195], Outcome.IN_KIND),
        (
            [-200.0, -900, -190, -950, -195],
            Outcome.NO_VERDICT,
        ),  # its mean would be 60%, its interval tells nothing
        ([-900.0, -910, -890, -905, -895], Outcome.NOT_REPRODUCED),
    ],
)
def test_a_curve_is_judged_by_its_interval_over_seeds(
    verdict: Verdict, finals: list[float], outcome: Outcome
) -> None:
    rows = curves(DIPS, FLAT)
    rows = [
        run(DYNAMIC, [*DIPS[:-1], finals[row.details["seed"]]], row.details["seed"])
        if row.backend == DYNAMIC
        else row
        for row in rows
    ]
    finding = verdict(rows)
    assert finding.outcome is outcome
    (share,) = (
        n
        for n in finding.ours
        if n.quantity == f"pendulum-ddpg, {DYNAMIC}: share of the reward gained in floats"
    )
    assert share.low is not None
    assert share.high is not None
    assert share.low < share.value < share.high


def test_a_dip_that_is_not_there_is_said(verdict: Verdict) -> None:
    assert "is not seen" in verdict(curves(LEARNS, FLAT)).explanation


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("pendulum-ddpg", Outcome.NO_VERDICT), ("hopper-ddpg-400-300", Outcome.NOT_REPRODUCED)],
)
def test_16_bits_that_train_from_the_start_contradict_the_claim_in_its_environments(
    verdict: Verdict, name: str, outcome: Outcome
) -> None:
    finding = verdict(curves(DIPS, LEARNS, name=name))
    assert finding.outcome is outcome
    assert "That 16 bits from the start fail is not seen." in finding.explanation


def test_a_dynamic_curve_that_falls_and_stays_contradicts_it(verdict: Verdict) -> None:
    assert verdict(curves([*LEARNS[:5], *FLAT[5:]], FLAT)).outcome is Outcome.NOT_REPRODUCED


def test_floats_that_learn_nothing_leave_it_open(verdict: Verdict) -> None:
    rows = [run(curve, FLAT, seed) for curve in (FLOAT, FIXED_32, FIXED_16, DYNAMIC) for seed in range(5)]
    assert verdict(rows).outcome is Outcome.NO_VERDICT


def test_only_the_papers_own_run_reproduces_it(verdict: Verdict) -> None:
    rows = curves(DIPS, FLAT, name="halfcheetah-ddpg", steps=1_000_000)
    assert verdict(rows).outcome is Outcome.REPRODUCED
    assert verdict(rows + curves(DIPS, FLAT)).outcome is Outcome.IN_KIND


def steps(learner_s: dict[int, float], environment_s: float = 1e-3) -> list[Measurement]:
    rows = []
    for size, seconds in learner_s.items():
        for term in TERMS:
            value = {"learner": seconds, "environment": environment_s}.get(term, 1e-5)
            rows.append(
                Measurement(
                    suite="claim", workload="halfcheetah-ddpg", primitive="training", backend=DYNAMIC, device="cpu",
                    batch_size=size, quantity=f"{term}_time", unit="s", provenance=Provenance.MEASURED, value=value,
                    details={"experiment": "FIX-F8"},
                )
            )  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("learner_s", "outcome"),
    [
        ({64: 5e-4, 128: 1e-3, 512: 4e-3}, Outcome.IN_KIND),
        ({64: 5e-4, 512: 6e-4}, Outcome.NOT_REPRODUCED),
        ({64: 5e-4}, Outcome.NOT_RUN),
    ],
)
def test_the_bottleneck_moves_to_the_learner_or_not(
    tmp_path: Path, learner_s: dict[int, float], outcome: Outcome
) -> None:
    finding = fixar21_training.breakdown(frame_of(tmp_path, *steps(learner_s)))
    assert finding.outcome is outcome
    if outcome is Outcome.IN_KIND:
        assert "environment at 64" in finding.explanation
        assert "learner at 512" in finding.explanation


def swept(sweep: dict[str, list[float]], steps: int = SWEPT.steps) -> list[Measurement]:
    rows = [run(name, returns, steps=steps) for name, returns in sweep.items()]
    for row in rows:
        row.details["experiment"] = SWEEP if row.backend != FIXED_32 else "FIX-F7"
    return rows


@pytest.mark.parametrize(("late", "outcome"), [(LEARNS, Outcome.IN_KIND), (FLAT, Outcome.NOT_REPRODUCED)])
def test_the_sweep_over_the_delay_and_the_formats(
    tmp_path: Path, late: list[float], outcome: Outcome
) -> None:
    early, split = f"{DYNAMIC}, d = 5% of the run", f"{FIXED_32}, weights Q(32, 16)"
    rows = swept({FIXED_32: LEARNS, early: late, split: FLAT})
    finding = fixar21_training.sweep(frame_of(tmp_path, *rows))
    assert finding.outcome is outcome
    assert "weights Q(32, 16) 0%" in finding.explanation
    assert len(finding.ours) == 3


def test_a_sweep_without_its_base_or_of_another_length_is_none(tmp_path: Path) -> None:
    early = f"{DYNAMIC}, d = 5% of the run"
    for rows in (
        swept({early: LEARNS}),
        swept({FIXED_32: LEARNS}),
        swept({FIXED_32: LEARNS, early: LEARNS}, 80),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        assert fixar21_training.sweep(frame_of(folder, *rows)).outcome is Outcome.NOT_RUN
