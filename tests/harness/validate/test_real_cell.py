"""What the rows of a real cell state, of one round in little time."""

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.cli import validation_tables
from placerl.harness.core.progress import silent
from placerl.harness.core.row import Row
from placerl.harness.mapping import VALIDATED, Loop
from placerl.harness.mapping.strategies.composed_loop import NAMES
from placerl.harness.profile.cases import validation_rounds
from placerl.harness.validate import plan, tried
from tests.harness.old_form import details_of

RUN = tuple(loop for loop in NAMES if loop is not Loop.RESIDENT)
"""`placerl bench gpu` runs the resident loop."""


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """A cell with a replay that fills in no time and without the FPGA, one round of it."""
    item = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 3000, "test")
    with pytest.MonkeyPatch.context() as patch:
        for module in (tried, validation_rounds):
            patch.setattr(module, "fpga_unavailable_reason", lambda: "left out")
        return plan.validate(item, 32, 1e-3, silent, platforms.of_this_machine(), {("sb3", "cpu"): 100.0})


def achieved_by(rows: list[Row]) -> dict[tuple[str, str], Row]:
    return {(r.where, r.loop): r for r in rows if r.quantity == "gradient_steps_per_s"}


@pytest.mark.slow
def test_every_mapping_runs_under_every_loop_and_every_strategy_is_set_beside_it(
    rows: list[Row],
) -> None:
    assert not [row.reason for row in rows if row.status == "failed"]
    assert {row.suite for row in rows} == {"validation"}
    achieved = achieved_by(rows)
    assert {(mapping, loop) for mapping, loop in achieved if "native" in mapping.split("-")[1]} >= {
        ("native-native-cpu", loop) for loop in RUN
    } | {("torch-native-cpu", loop) for loop in RUN if loop != Loop.CONCURRENT}
    assert ("torch-flat-cpu", "fused") in achieved
    assert ("torch-flat-cpu", "strict") not in achieved, "nothing of it can be fused"
    predicted = [row for row in rows if row.quantity == "predicted_gradient_steps_per_s"]
    everything = {mapping for mapping, _ in achieved}
    for strategy in ("composed-loop", "strict-loop", "map-tpds23", "primitive-sum"):
        assert {row.where for row in predicted if row.who == strategy} == everything
    beside = [row for row in predicted if "error" in details_of(row)]
    assert {row.who for row in beside} == set(VALIDATED) - {NAMES[Loop.RESIDENT]}
    for row in beside:
        ran = achieved[row.where, row.ran]
        assert row.achieved == ran.value
        assert row.error > -1


@pytest.mark.slow
def test_each_loop_s_own_model_has_an_error_for_every_term_that_the_runtime_counts(
    rows: list[Row],
) -> None:
    terms = {
        (row.who, row.where): set(row.term_errors)
        for row in rows
        if row.quantity == "predicted_gradient_steps_per_s" and "error" in details_of(row)
    }
    apart = {"actor", "insert", "sample and gather", "learner", "update", "loop"}
    assert terms["composed-loop", "native-native-cpu"] == {"actor", "insert", "step", "loop"}
    assert terms["composed-loop", "torch-native-cpu"] == apart
    assert terms["strict-loop", "native-native-cpu"] == apart
    assert terms["overlapped-loop", "native-native-cpu"] >= {"actor", "insert", "step"}


@pytest.mark.slow
def test_all_that_a_real_cell_gives_can_be_printed(
    rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    validation_tables.show_cell(rows)
    validation_tables.show_strategies(rows)
    printed = capsys.readouterr().out
    assert all(f"{name} " in printed for name in NAMES.values())


@pytest.mark.slow
def test_regret_overhead_and_portability_are_those_of_the_mappings_that_ran(rows: list[Row]) -> None:
    in_turn = [row.value for (_, loop), row in achieved_by(rows).items() if loop == "fused"]
    lost = {row.who: row for row in rows if row.quantity == "regret"}
    single = {NAMES[Loop.CONCURRENT], NAMES[Loop.RESIDENT]}
    assert set(lost) == set(VALIDATED) - single, "a loop of one mapping has no choice"
    assert all(row.value is not None and 0 <= row.value < 1 for row in lost.values())
    overheads = {row.where for row in rows if row.quantity == "runtime_overhead"}
    assert {"native-native-cpu", "torch-native-cpu"} <= overheads
    found = {row.who: row for row in rows if row.quantity == "portability"}
    assert found["placerl"].value == pytest.approx(32 * max(in_turn)), "one device, whatever the backend"
    assert found["placerl"].choices == ["cpu-cpu"]
    assert found["sb3"].value > 0, "it was run, and has a learner on the CPU"
    assert (found["rllib"].status, found["rllib"].value) == ("not_run", None)
    assert "placerl compare cartpole-dqn --baselines rllib" in found["rllib"].reason
