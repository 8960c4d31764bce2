"""Verdicts over several machines: what they say together, and the rows that every machine's verdicts share."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness import papers
from placerl.harness.core.outcome import Outcome
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.papers import machines
from placerl.harness.papers.machines import (
    _last_profiles,
    judged,
    last_of_machines,
    shared,
    together,
    with_committed,
    with_shared,
)
from placerl.harness.papers.ppo.figures_12_15_cycles import DATAFLOWS_MUJOCO, AcceleratorCycles
from placerl.harness.store.rows import ClaimRow, PieceTime
from placerl.harness.store.store import RunRecord, as_frame

UNANSWERED = (Outcome.NOT_RUN, Outcome.NO_VERDICT)
SHOWN = (Outcome.REPRODUCED, Outcome.IN_KIND)


def run(number: int, fingerprint: str, started_at: str, tier: str = "quick") -> RunRecord:
    return RunRecord(number, f"k{number}", tier, f"r{number}", fingerprint, started_at, {})


OLD, NEW = run(2, "a", "2026-01-01T00:00:00Z"), run(1, "b", "2026-02-01T00:00:00Z")
LONG = run(3, "a", "2025-12-01T00:00:00Z", "standard")


def cycles(value: float, batch_size: int = 64, status: str = "ok") -> ClaimRow:
    return ClaimRow(
        suite=Suite.CLAIM,
        experiment=DATAFLOWS_MUJOCO,
        primitive="iteration",
        batch_size=batch_size,
        quantity="cycles",
        unit="cycles",
        provenance=Provenance.SIMULATED,
        status=status,
        value=value if status == "ok" else None,
        reason="" if status == "ok" else "not run: no tools",
        parameters={"n": batch_size},
    )


def timed(value: float) -> PieceTime:
    return PieceTime(
        suite=Suite.PROFILE,
        primitive="learner.step",
        quantity="time_per_call",
        unit="s",
        provenance=Provenance.MEASURED,
        value=value,
        backend="native",
        device="cpu",
    )


def frame(*rows: tuple[RunRecord, Row]) -> pd.DataFrame:
    return as_frame([(record, f"cell{number}", "", row) for number, (record, row) in enumerate(rows)])


@given(st.lists(st.sampled_from(Outcome), max_size=6))
def test_neither_order_nor_repetition_nor_a_machine_without_an_answer_changes_what_they_say(
    outcomes: list[Outcome],
) -> None:
    said = together(outcomes)
    assert together(reversed(outcomes)) is said
    assert together([*outcomes, *outcomes]) is said
    assert together([*outcomes, Outcome.NOT_RUN]) is said
    if said not in UNANSWERED:
        assert together([*outcomes, Outcome.NO_VERDICT]) is said


@pytest.mark.parametrize(("one", "other"), list(product(Outcome, repeat=2)))
def test_two_machines(one: Outcome, other: Outcome) -> None:
    said = together([one, other])
    both = {one, other} - set(UNANSWERED) - {Outcome.DEPENDS}
    if Outcome.DEPENDS in (one, other):
        return  # no machine alone gives it
    if Outcome.NOT_REPRODUCED in both and both & set(SHOWN):
        assert said is Outcome.DEPENDS
    elif both == set(SHOWN):
        assert said is Outcome.IN_KIND
    elif both == {Outcome.NOT_REPRODUCED, Outcome.CONSISTENT}:
        assert said is Outcome.NOT_REPRODUCED, "a formula does not outweigh a measurement"
    elif Outcome.CONSISTENT in both and len(both) == 2:
        assert {said} == both - {Outcome.CONSISTENT}
    elif both:
        assert {said} == both
    else:
        assert said is (Outcome.NO_VERDICT if Outcome.NO_VERDICT in (one, other) else Outcome.NOT_RUN)


def test_no_machine_says_nothing() -> None:
    assert together([]) is Outcome.NOT_RUN


def values(rows: pd.DataFrame) -> Sequence[float]:
    return sorted(rows["value"])


def test_cycles_of_another_machine_are_shared_and_its_times_are_not() -> None:
    everything = frame((OLD, timed(1.0)), (OLD, cycles(100)), (NEW, timed(2.0)))
    own = everything[everything["fingerprint"] == "b"]
    assert values(with_shared(own, everything)) == [2.0, 100.0]
    assert list(with_shared(own, everything).index) == [2, 1], "labels stay those of all measurements"


def test_the_last_run_has_the_cycles_of_a_changed_design() -> None:
    everything = frame((NEW, cycles(90)), (OLD, cycles(100)), (OLD, cycles(400, batch_size=256)))
    assert values(shared(everything)) == [90, 400]
    for fingerprint in "ab":
        own = everything[everything["fingerprint"] == fingerprint]
        assert values(with_shared(own, everything)) == [90, 400]


def test_cycles_are_shared_of_an_experiment_that_also_times_and_by_the_sizes_of_an_iteration() -> None:
    def iteration(value: float, agents: int, unit: str = "cycles") -> ClaimRow:
        sizes = {"iteration": {"agents": agents}}
        return replace(cycles(value), experiment="PPO-T2", unit=unit, parameters=sizes)

    everything = frame(
        (OLD, iteration(100, 4)),
        (OLD, iteration(200, 8)),
        (OLD, iteration(3, 4, "s")),
        (NEW, iteration(90, 4)),
    )
    own = everything[everything["fingerprint"] == "b"]
    assert values(with_shared(own, everything)) == [90, 200]


def test_what_a_machine_could_not_run_gives_way_to_what_another_ran() -> None:
    everything = frame((OLD, cycles(100)), (NEW, cycles(0, status="not_run")))
    own = everything[everything["fingerprint"] == "b"]
    assert with_shared(own, everything)["status"].tolist() == ["ok"]


def test_a_changed_design_replaces_all_rows_of_its_experiment(tmp_path: Path) -> None:
    def counted(value: float) -> ClaimRow:
        columns = AcceleratorCycles("hopper", 16, {"NS": int(value)})
        return DATAFLOWS_MUJOCO.row(
            columns,
            primitive="iteration",
            batch_size=64,
            quantity="cycles",
            provenance=Provenance.SIMULATED,
            value=value,
        )

    assert values(shared(frame((OLD, counted(100)), (OLD, counted(70)), (NEW, counted(90))))) == [90]


def test_a_failure_of_the_last_run_is_not_hidden_by_an_earlier_one() -> None:
    everything = frame((OLD, cycles(100)), (NEW, cycles(0, status="failed")))
    own = everything[everything["fingerprint"] == "b"]
    assert with_shared(own, everything)["status"].tolist() == ["failed"]


def profiled_in_simulation(primitive: str, value: float) -> PieceTime:
    return replace(
        timed(value), suite=Suite.SIMULATED_PROFILE, primitive=primitive, backend="fpga", device="fpga:u200"
    )


def test_a_later_profile_of_the_replay_alone_leaves_the_learner_its_times() -> None:
    both = (profiled_in_simulation("learner.step", 3.0), profiled_in_simulation("sum_tree.sample", 2.0))
    again = profiled_in_simulation("sum_tree.sample", 1.0)
    assert values(shared(frame(*((OLD, row) for row in both), (NEW, again)))) == [1.0, 3.0]


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Two committed rows, of a run that began at the time of `OLD`."""
    lent = frame((OLD, cycles(100)), (OLD, cycles(400, batch_size=256)))
    lent = lent.assign(run=-lent["run"], run_key="committed")
    monkeypatch.setattr(machines, "committed", lambda: lent)
    return lent


def test_committed_rows_belong_to_a_store_that_lacks_them(committed: pd.DataFrame) -> None:
    own = frame((NEW, timed(2.0)), (NEW, cycles(90)))
    everything = with_committed(own)
    assert everything["run"].tolist() == [1, 1, -2]
    assert everything["value"].tolist() == [2.0, 90.0, 400.0], "a later version of its own replaces them"
    assert everything.index.is_unique
    assert everything.index[:2].tolist() == own.index.tolist(), (
        "verdicts name the store's rows by these labels"
    )
    assert values(with_shared(own, everything)) == [2.0, 90.0, 400.0]


def test_an_empty_store_has_all_committed_rows(committed: pd.DataFrame) -> None:
    assert values(with_committed(frame())) == values(committed)


def test_a_store_that_has_taken_a_committed_run_in_has_its_rows_once(committed: pd.DataFrame) -> None:
    own = frame((OLD, cycles(100))).assign(run_key="committed")
    assert with_committed(own)["value"].tolist() == [100.0]


def test_the_committed_rows_are_no_times_of_a_machine() -> None:
    rows = machines.committed()
    assert set(rows["provenance"]) <= {"simulated", "modelled", "measured"}
    assert set(rows[rows["provenance"] == "measured"]["unit"]) <= {"count"}
    assert (rows["run"] < 0).all()
    assert len(rows) > 100


def test_a_later_profile_of_a_machine_replaces_its_times_in_a_cell_of_any_name() -> None:
    later = run(3, "a", "2026-03-01T00:00:00Z")
    rows = _last_profiles(frame((OLD, timed(1.0)), (NEW, timed(2.0)), (later, timed(1.5))))
    assert values(rows) == [1.5, 2.0], "of each machine its own"


def last_of_one_cell(*rows: tuple[RunRecord, Row]) -> pd.DataFrame:
    return last_of_machines(as_frame([(record, "claim/X", "", row) for record, row in rows]))


def test_a_later_run_of_a_smaller_tier_does_not_replace_a_larger_one() -> None:
    long, short = (LONG, cycles(100)), (OLD, cycles(70))
    assert values(last_of_one_cell(short)) == [70]
    assert values(last_of_one_cell(long, short)) == [100]
    assert values(last_of_one_cell(long, (NEW, cycles(50)))) == [50, 100], "of another machine"
    full = (run(4, "a", "2025-11-01T00:00:00Z", "full"), cycles(110))
    assert values(last_of_one_cell(full, long, short)) == [110]
    again = (run(5, "a", "2026-03-01T00:00:00Z", "standard"), cycles(90))
    assert values(last_of_one_cell(long, short, again)) == [90], "the last of equals"
    own = (run(6, "a", "2026-04-01T00:00:00Z", "gpu"), cycles(80))
    assert values(last_of_one_cell(short, own)) == [80], "a tier of another name is as small as quick"
    assert values(last_of_one_cell(long, own)) == [100]


def test_a_larger_tier_that_states_less_than_the_last_attempt_is_replaced() -> None:
    """As of an earlier version of the experiment, or where nothing was run."""
    more = replace(cycles(70), parameters={"n": 64, "k": 2})
    assert values(last_of_one_cell((LONG, cycles(100)), (OLD, more))) == [70]
    assert values(last_of_one_cell((LONG, more), (OLD, cycles(100)))) == [70]
    assert values(last_of_one_cell((LONG, cycles(0, status="not_run")), (OLD, cycles(70)))) == [70]
    failed = last_of_one_cell((LONG, cycles(100)), (OLD, cycles(0, status="failed")))
    assert failed["status"].tolist() == ["failed"], "which no earlier value hides"


def test_a_profile_of_a_larger_tier_stays_also_in_a_cell_of_another_name() -> None:
    rows = _last_profiles(frame((LONG, timed(1.0)), (OLD, timed(2.0)), (NEW, timed(3.0))))
    assert values(rows) == [1.0, 3.0]


def test_a_machine_alone_keeps_its_rows() -> None:
    everything = frame((OLD, timed(1.0)), (OLD, cycles(0, status="not_run")))
    assert with_shared(everything, everything) is everything


def test_every_claim_has_one_verdict_and_names_each_machine_that_it_was_judged_on() -> None:
    joint = judged(frame((OLD, timed(1.0)), (NEW, timed(2.0)), (OLD, cycles(100))))
    assert [one.claim.key for one in joint] == [claim.key for claim in papers.claims()]
    for one in joint:
        assert list(one.by_machine) == ([""] if one.claim.everywhere else ["b", "a"]), "the last run's first"
        assert one.outcome is together(verdict.finding.outcome for verdict in one.by_machine.values())
