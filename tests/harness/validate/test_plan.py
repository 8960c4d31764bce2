"""The cells of the validation: their grid and times, what each measures, and the rows that it makes."""

from types import SimpleNamespace
from typing import Any

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import VALIDATED, Problem, predict
from placerl.harness.mapping.candidates import COMPARED_ONLY
from placerl.harness.mapping.strategies.composed_loop import TIMED_WHERE_THEY_RUN
from placerl.harness.measure import protocol as measure
from placerl.harness.measure.protocol import Case, Timing
from placerl.harness.profile import simulated
from placerl.harness.profile.cases import validation_rounds
from placerl.harness.validate import piece_times, plan, tried
from placerl.harness.validate.rows import HERE, WITH_SIMULATED
from tests.harness.old_form import details_of, replace
from tests.harness.validate.achieved import training_row, unmoved


def test_the_quick_grid_fits_into_eight_minutes() -> None:
    assert sum(cell.estimate_s for cell in plan.cells("quick")) <= 8 * 60
    with pytest.raises(UserError, match="--tier"):
        plan.cells("hasty")


def test_a_cell_hands_on_the_baselines_that_were_compared_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(
        backend: str,
        value: float | None,
        part: str = "theirs",
        device: str = "cpu",
        conditions: str = "",
        **fields: Any,
    ) -> Row:
        why = {"status": "failed", "reason": "wrong"} if value is None else {}
        details = {"part": part, "baseline": backend + conditions}
        row = training_row(device, 1.0, suite="compare", backend=backend, details=details, **fields)
        return replace(row, value=value, **why)

    stored = [
        compared("sb3", 6.0),
        compared("sb3", 7.0),  # the last one counts
        compared("sb3", 5.0, conditions=", this project with C++ actors and learner, on 2 cores"),
        compared("sb3", 70.0, device="cuda:1"),
        compared("placerl", 9.0, "ours"),
        compared("rllib", None),
        compared("cleanrl", 3.0, quantity="episode_return"),
    ]
    asked: dict[str, Any] = {}

    def measurements(**fields: Any) -> list[Row]:
        asked.update(fields)
        return stored

    monkeypatch.setattr(plan, "of_this_machine", lambda: "this machine")
    monkeypatch.setattr(plan, "validate", lambda *arguments: list(arguments))
    item = workloads.load("hopper-ddpg")
    made_of = plan.cell(item, 32, 5.0)
    run: Any = SimpleNamespace(rows=lambda kind, **chosen: measurements(**chosen))
    rates = {("sb3", "cpu"): 7.0, ("sb3", "cuda"): 70.0}
    assert made_of.measure(run, silent) == [item, 32, 5.0, silent, "this machine", rates, ()]
    assert asked == {
        "suite": "compare",
        "workload": "hopper-ddpg",
        "primitive": "training",
        "batch_size": 32,
    }
    assert (made_of.key, made_of.chain, made_of.estimate_s) == ("validation/hopper-ddpg/32", "hopper-ddpg", 5)


def test_a_longer_tier_validates_what_a_shorter_one_does() -> None:
    """So that their numbers can be set beside each other."""
    quick, standard, full = plan.GRIDS.values()
    for shorter, longer in ((quick, standard), (standard, full)):
        assert all(set(sizes) <= set(longer[name]) for name, sizes in shorter.items())


def test_cells_are_those_of_the_grid_with_their_own_or_the_given_time() -> None:
    keys = [f"validation/{name}/{size}" for name, sizes in plan.GRIDS["quick"].items() for size in sizes]
    for budget_s in (0.0, 3.0):
        cells = plan.cells("quick", budget_s)
        assert [cell.key for cell in cells] == keys
        for cell in cells:
            assert cell.estimate_s == (
                budget_s or plan.BUDGETS_S["quick"][cell.chain, int(cell.key.split("/")[2])]
            )


def test_the_board_s_rows_are_its_cycles_and_copies_at_the_bandwidth_of_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hopper's transition is stored in 105 bytes: 26 words of 4 bytes, and whether it ended the episode."""
    times = {"suite": "simulated_profile", "quantity": "time_per_call", "unit": "s"}
    counted = training_row("fpga:u200", 1.0, **times, details={"cycles": 9})
    on_two = replace(counted, primitive="learner.pipeline_step in 2 streams")  # what no round is run with
    monkeypatch.setattr(simulated, "profile", lambda *arguments: [counted, on_two])
    item = workloads.load("hopper-ddpg")
    board = platforms.load(simulated.DEVICES[piece_times.BOARD].platform).find("fpga")
    first, gather, insert = piece_times.board_rows(item, 32, Problem(32, 27, stored_bytes=105))
    assert (first.suite, first.where) == ("validation", "fpga")
    assert details_of(first) == {"cycles": 9, "target": "fpga", "board": "fpga:u200"}
    assert [row.primitive for row in (gather, insert)] == ["storage.gather", "storage.insert"]
    for row, rows in ((gather, 32), (insert, 1)):
        assert row.value == pytest.approx(rows * 105 / (board.memory_gb_s.value * 1e9))
        assert (row.provenance, row.unit, row.batch_size) == (Provenance.MODELLED, "s", 32)
        assert (row.suite, row.workload, row.who) == ("validation", "hopper-ddpg", "fpga")
        assert row.formula.startswith(f"{rows * 105} B / ")


@pytest.mark.parametrize("with_board", [True, False])
def test_a_strategy_chooses_among_what_is_here_and_again_with_the_board(
    with_board: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It chose torch here; beside the board, the board."""
    (name, *_) = VALIDATED
    asked: list[tuple[list[str], str]] = []

    def predicted(device: str, chosen: bool) -> Row:
        of = {"chosen": chosen, "terms_s": {}}
        return training_row(device, 1.0, suite="prediction", backend=name, details=of)

    def measurements(item: Any, size: int, profile: Any, platform: Any, strategies: Any) -> list[Row]:
        asked.append(([row.who for row in profile], platform))
        assert (size, strategies) == (32, VALIDATED)
        boards = any(row.who == "fpga" for row in profile)
        rows = [predicted("torch-flat-cpu", not boards), predicted("native-flat-cpu", False)]
        return rows + [predicted("fpga-fpga-fpga", True)] * boards

    def with_slow_links(*arguments: Any) -> list[Row]:
        """With a slow link torch is chosen instead of the board."""
        slow = {"fpga-fpga-fpga": False, "torch-flat-cpu": True}
        return [replace(row, slow_chosen=slow.get(row.mapping)) for row in measurements(*arguments)]

    monkeypatch.setattr(predict, "measurements", measurements)
    monkeypatch.setattr(predict, "with_slow_links", with_slow_links)
    monkeypatch.setattr(piece_times, "of_this_machine", lambda: "here")
    monkeypatch.setattr(simulated, "with_device", lambda platform, board: f"{platform} and {board}")
    monkeypatch.setattr(plan, "beside", lambda row, *arguments: row)
    backends = ["torch", "fpga"] if with_board else ["torch"]
    times = {"quantity": "time_per_call", "unit": "s"}
    profile = [training_row("cpu", 1.0, backend=backend, **times) for backend in backends]
    given: Any = "given"
    unused: Any = None
    rows = plan._predictions(workloads.load("hopper-ddpg"), Problem(32, 27), profile, unused, given, {})
    found = {row.mapping: (row.chosen, row.chosen_among) for row in rows}
    expected = {"torch-flat-cpu": (True, [HERE]), "native-flat-cpu": (False, [])}
    if with_board:
        expected["fpga-fpga-fpga"] = (False, [WITH_SIMULATED])
    assert found == expected
    bands = {row.mapping: row.slow_chosen for row in rows if row.slow_chosen is not None}
    assert bands == ({"fpga-fpga-fpga": False, "torch-flat-cpu": True} if with_board else {})
    assert len(rows) == len(expected)
    assert asked == [(["torch"], "given"), (["torch", "fpga"], "here and fpga:u200")][: 1 + with_board]


def test_a_cell_measures_pieces_and_mappings_together_and_sets_predictions_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each case is said to take 1 ms a call, in every one of five rounds."""
    protocols: list[measure.Protocol] = []

    class Timings(dict[str, Timing]):
        """Of cases and, where they are asked for, of parts of them."""

        def __missing__(self, name: str) -> Timing:
            assert name.partition(": ")[0] in self
            return one_ms(name)

    def one_ms(name: str) -> Timing:
        rounds, samples_s = tuple(range(5)), (1e-3,) * 5
        of_all = {"clock_s": samples_s, "clock_rounds": rounds}
        return Timing(name, "ok", "", unmoved(*samples_s), 1e-3, 1e-3, 1e-3, 1, rounds, **of_all)

    def measured(cases: list[Case[Any]], protocol: measure.Protocol, progress: Any, narrow: Any) -> Timings:
        timings = Timings({case.name: one_ms(case.name) for case in cases})
        assert len(timings) == len(cases)
        protocols.append(protocol)
        progress(3, 7)
        return timings

    monkeypatch.setattr(measure, "measure", measured)
    for module in (tried, validation_rounds):
        monkeypatch.setattr(module, "fpga_unavailable_reason", lambda: "left out")
    item, said = workloads.load("cartpole-dqn"), []
    size = item.training.batch_size
    platform = platforms.load("map-tpds23")
    rows = plan.validate(
        item, size, 900.0, lambda *progress: said.append(progress), platform, {("sb3", "cpu"): 50.0}
    )
    assert said == [(3, 7, "interleaved rounds")]
    (protocol,) = protocols
    assert protocol.budget_s is not None
    most_s = 900 * (1 - plan.PREDICTING_SHARE)
    assert 0.8 * most_s < protocol.budget_s < most_s, (
        "without what was spent before, and what predictions take"
    )
    assert (protocol.ends_within, protocol.threads) == (True, 1)
    assert protocol.block_s < protocol.long_block_s, "a usual block is no long one"
    assert {(row.suite, row.workload, row.batch_size) for row in rows} == {("validation", item.name, size)}
    by = {quantity: [r for r in rows if r.quantity == quantity] for quantity in {r.quantity for r in rows}}
    assert {row.value for row in by["time_per_call"]} == {1e-3}
    assert not {row.who for row in by["time_per_call"]} & set(COMPARED_ONLY)
    achieved = {(row.where, row.loop): row for row in by["gradient_steps_per_s"]}
    expected = {
        (str(mapping), str(loop)) for mapping in tried.mappings(item) for loop in tried.loops(item, mapping)
    }
    assert set(achieved) == expected
    assert {round(row.value or 0, 6) for row in achieved.values()} == {1000}
    pieces = {row.primitive for row in by["time_per_call"]}
    assert any(piece.startswith("overlapped_round.") for piece in pieces)
    beside = [row for row in by["predicted_gradient_steps_per_s"] if "error" in details_of(row)]
    assert {row.who for row in beside} >= {"composed-loop"}
    for row in beside:
        assert row.error == pytest.approx(row.value / 1000 - 1)
    assert {row.who for row in by["regret"]} == set(VALIDATED) - {*TIMED_WHERE_THEY_RUN}, "of one mapping"
    assert not [row.reason for row in by["regret"] if row.status == "not_run"], "every choice was run"
    assert {row.value for row in by["regret"] if row.value is not None} == {0}
    assert by["runtime_overhead"]
    ours = [row for row in by["portability"] if row.who == "placerl"]
    assert [row.value for row in ours] == [pytest.approx(1000 * size)]
    theirs = [row for row in by["portability"] if row.who == "sb3"]
    assert [row.value for row in theirs] == [50 * size]


def test_long_cells_have_the_time_that_one_round_takes_however_short_the_tier_s_cells_are() -> None:
    cells = {cell.key: cell.estimate_s for cell in plan.cells("full", 600)}
    long = {f"validation/{name}/{size}": least_s for (name, size), least_s in plan.LEAST_S.items()}
    assert long == {key: estimate_s for key, estimate_s in cells.items() if estimate_s > 600}


def test_the_standard_tier_has_no_cell_that_takes_longer_than_its_own() -> None:
    assert not {f"validation/{name}/{size}" for name, size in plan.LEAST_S} & {
        cell.key for cell in plan.cells("standard")
    }
