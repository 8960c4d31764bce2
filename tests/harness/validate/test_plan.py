from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness import platforms, workloads
from harness.cli import validate_command
from harness.core.errors import UserError
from harness.core.progress import silent
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.mapping import (
    VALIDATED,
    Entry,
    Loop,
    Mapping,
    PerformanceTable,
    Problem,
    Target,
    predict,
)
from harness.mapping.problem import problem_of
from harness.mapping.strategies.composed_loop import NAMES, ComposedLoop
from harness.measure import protocol as measure
from harness.measure.protocol import Case, Timing
from harness.profile import simulated
from harness.profile.cases import piece_cases, primitive_cases, validation_rounds
from harness.profile.cases.shared_parts import SharedParts
from harness.runtime import compose
from harness.runtime.options import Fusion
from harness.validate import plan
from harness.validate import rows as made
from harness.validate.rows import HERE, WITH_SIMULATED
from primitives.quantization.precision import FLOAT_32
from tests.harness.validate.achieved import ran, training_row, unmoved


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    """A cell with a replay that fills in no time and without the FPGA, one round of it."""
    item = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 3000, "test")
    with pytest.MonkeyPatch.context() as patch:
        for module in (plan, validation_rounds):
            patch.setattr(module, "fpga_unavailable_reason", lambda: "left out")
        return plan.validate(item, 32, 1e-3, silent, platforms.of_this_machine(), {("sb3", "cpu"): 100.0})


def achieved_by(rows: list[Measurement]) -> dict[tuple[str, str], Measurement]:
    return {(r.device, r.details["loop"]): r for r in rows if r.quantity == "gradient_steps_per_s"}


@pytest.mark.slow
def test_every_mapping_runs_under_every_loop_and_every_strategy_is_set_beside_it(
    rows: list[Measurement],
) -> None:
    assert not [row.reason for row in rows if row.status == "failed"]
    assert {row.suite for row in rows} == {"validation"}
    achieved = achieved_by(rows)
    assert {(mapping, loop) for mapping, loop in achieved if "native" in mapping.split("-")[1]} >= {
        ("native-native-cpu", loop) for loop in Loop
    } | {("torch-native-cpu", loop) for loop in Loop}
    assert ("torch-flat-cpu", "fused") in achieved
    assert ("torch-flat-cpu", "strict") not in achieved, "nothing of it can be fused"
    predicted = [row for row in rows if row.quantity == "predicted_gradient_steps_per_s"]
    everything = {mapping for mapping, _ in achieved}
    for strategy in ("composed-loop", "strict-loop", "map-tpds23", "primitive-sum"):
        assert {row.device for row in predicted if row.backend == strategy} == everything
    beside = [row for row in predicted if "error" in row.details]
    assert {row.backend for row in beside} == set(VALIDATED)
    for row in beside:
        ran = achieved[row.device, row.details["ran"]]
        assert row.details["achieved"] == ran.value
        assert row.details["error"] > -1


@pytest.mark.slow
def test_each_loop_s_own_model_has_an_error_for_every_term_that_the_runtime_counts(
    rows: list[Measurement],
) -> None:
    terms = {
        (row.backend, row.device): set(row.details["term_errors"])
        for row in rows
        if row.quantity == "predicted_gradient_steps_per_s" and "error" in row.details
    }
    apart = {"actor", "insert", "sample and gather", "learner", "update", "loop"}
    assert terms["composed-loop", "native-native-cpu"] == {"actor", "insert", "step", "loop"}
    assert terms["composed-loop", "torch-native-cpu"] == apart
    assert terms["strict-loop", "native-native-cpu"] == apart
    assert terms["overlapped-loop", "native-native-cpu"] >= {"actor", "insert", "step"}


@pytest.mark.slow
def test_all_that_a_real_cell_gives_can_be_printed(
    rows: list[Measurement], capsys: pytest.CaptureFixture[str]
) -> None:
    validate_command.show_cell(rows)
    validate_command.show_strategies(rows)
    printed = capsys.readouterr().out
    assert all(f"{name} " in printed for name in NAMES.values())


@pytest.mark.slow
def test_regret_overhead_and_portability_are_those_of_the_mappings_that_ran(rows: list[Measurement]) -> None:
    in_turn = [row.value for (_, loop), row in achieved_by(rows).items() if loop == "fused"]
    lost = {row.backend: row for row in rows if row.quantity == "regret"}
    assert set(lost) == set(VALIDATED)
    assert all(row.value is not None and 0 <= row.value < 1 for row in lost.values())
    overheads = {row.device for row in rows if row.quantity == "runtime_overhead"}
    assert {"native-native-cpu", "torch-native-cpu"} <= overheads
    found = {row.backend: row for row in rows if row.quantity == "portability"}
    assert found["placerl"].value == pytest.approx(32 * max(in_turn)), "one device, whatever the backend"
    assert found["placerl"].details["choices"] == ["cpu-cpu"]
    assert found["sb3"].value > 0, "it was run, and has a learner on the CPU"
    assert (found["rllib"].status, found["rllib"].value) == ("not_run", None)
    assert "placerl compare cartpole-dqn --baselines rllib" in found["rllib"].reason


@pytest.mark.parametrize(
    ("primitive", "target", "provenance"),
    [
        ("round.learn", "fpga", Provenance.MODELLED),
        ("round.sample", "fpga", Provenance.SIMULATED),
        ("overlapped_round.insert", "fpga", Provenance.SIMULATED),
        ("round.collect", "fpga", Provenance.MEASURED),
        ("round.learn", "native", Provenance.MEASURED),
    ],
)
def test_a_piece_on_the_fpga_is_of_the_provenance_of_its_cycles(
    primitive: str, target: str, provenance: Provenance
) -> None:
    case = SimpleNamespace(primitive=primitive, target=Target(target))
    assert validation_rounds.provenance_of(case) is provenance


def test_what_the_workload_cannot_run_under_is_no_choice_of_ours_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    item, check = workloads.load("cartpole-dqn"), compose.check

    def without_native(item: Any, mapping: Mapping) -> None:
        if mapping.learner.backend == "native":
            raise UserError(mapping, "learner", "native", "torch")
        check(item, mapping)

    monkeypatch.setattr(compose, "check", without_native)
    monkeypatch.setattr(plan, "fpga_unavailable_reason", lambda: "left out")
    lacking = plan.unsupported(item)
    assert {mapping.learner.backend for mapping in lacking} == {"native"}
    more = plan.unsupported(item, ("fixed32",))
    assert {str(mapping.learner) for mapping in more} == {"native", "native[fixed32]"}
    assert set(lacking) < set(more)
    assert not set(lacking) & set(plan.mappings(item))
    fields = {"workload": "cartpole-dqn", "batch_size": 32}
    ours, theirs, _ = made.portabilities(
        fields, [ran("torch-flat-cpu", 10.0)], {("sb3", "cpu"): 5.0}, "dqn", {}, lacking
    )
    assert (ours.value, theirs.value) == (320, 160), "another backend of the device can"
    on_gpu = [Mapping.parse("torch:cuda-flat-cpu"), Mapping.parse("torch:cuda-cuda-cpu")]
    ours, theirs, _ = made.portabilities(
        fields, [ran("torch-flat-cpu", 10.0)], {("sb3", "cpu"): 5.0}, "dqn", {}, on_gpu
    )
    assert (ours.value, theirs.value) == (0, 0)
    assert ours.details["lacking"] == ["cuda-cpu", "cuda-cuda"]
    assert theirs.details["lacking"] == ["cuda-cuda"]
    (alone, *_) = made.portabilities(fields, [ran("torch-flat-cpu", 10.0)], {}, "dqn", {})
    assert alone.value == pytest.approx(320)


def test_every_loop_has_a_model_of_its_own() -> None:
    names = {ComposedLoop(loop).name for loop in Loop}
    assert {VALIDATED[name].loop for name in names} == set(Loop)


def test_the_quick_grid_fits_into_eight_minutes() -> None:
    assert sum(cell.estimate_s for cell in plan.cells("quick")) <= 8 * 60
    with pytest.raises(UserError, match="--tier"):
        plan.cells("hasty")


@pytest.mark.parametrize(
    ("mapping", "fuses"),
    [
        ("native-native-cpu", True),
        ("torch-native-cpu", True),
        ("torch-flat-cpu", False),
        ("fpga-native-cpu", True),
        ("torch-fpga-cpu", False),
        ("fpga-fpga-fpga", False),
        ("opencl-native-opencl", False),
        ("torch-opencl-opencl", False),
        ("native[fixed32]-native-cpu", True),
    ],
)
def test_a_mapping_is_run_under_each_loop_that_differs(mapping: str, fuses: bool) -> None:
    placement, item = Mapping.parse(mapping), workloads.load("hopper-ddpg")
    apart = (Loop.STRICT,) if fuses else ()
    assert plan.loops(item, placement) == (Loop.FUSED, *apart, Loop.OVERLAPPED, Loop.RELAXED)
    uniform = workloads.override(item, "replay.prioritized", False, "test")
    assert plan.loops(uniform, placement) == (Loop.FUSED, Loop.OVERLAPPED)
    assert plan.loops(workloads.load("hopper-ppo"), placement) == (Loop.FUSED,)


@pytest.mark.slow  # relaxed schedules of every mapping, several times
@pytest.mark.parametrize("precisions", [(), ("fixed32",)])
def test_whatever_a_strategy_may_choose_is_run_under_its_loop(precisions: tuple[str, ...]) -> None:
    """From tables of random times, on this machine's devices and the simulated board."""
    item, every = workloads.load("cartpole-dqn"), (FLOAT_32, *precisions)
    problem = problem_of(item, 32)
    parts = SharedParts(item, problem)
    pieces = [
        *primitive_cases(item, 32, every),
        *piece_cases(item, 32, parts, every),
        *validation_rounds.validation_cases(item, problem, parts, every),
    ]
    timed = [one for one in pieces if one.target.backend not in plan.BESIDE]
    cells = [(one.primitive, one.target, validation_rounds.provenance_of(one)) for one in timed]
    platform = platforms.of_this_machine()
    if not validation_rounds.fpga_unavailable_reason():
        of_trees = [f"sum_tree.{name}" for name in ("sample", "update", "insert")]
        of_board = ("learner.step", *of_trees, "storage.gather", "storage.insert")
        cells += [(name, validation_rounds.FPGA, Provenance.SIMULATED) for name in of_board]
        platform = simulated.with_device(platform, plan.BOARD)
    loops = {mapping: plan.loops(item, mapping) for mapping in plan.mappings(item, precisions)}
    rng = np.random.default_rng(0)
    chosen = set()
    for _ in range(4):
        times_s = np.exp(rng.normal(-9, 2, len(cells))).tolist()
        entries = [
            Entry(name, target, 32, time_s, time_s, time_s, provenance)
            for (name, target, provenance), time_s in zip(cells, times_s, strict=True)
        ]
        for strategy in VALIDATED.values():
            mapping = strategy.choose(PerformanceTable(entries), problem, platform).mapping
            never_fused = compose.fusions(item, mapping, 0) == (Fusion.NONE,)
            same = strategy.loop is Loop.STRICT and never_fused
            assert (Loop.FUSED if same else strategy.loop) in loops[mapping], (strategy.name, str(mapping))
            chosen.add(mapping)
    assert len(chosen) > 5


def test_the_data_is_stored_on_a_device_of_learner_or_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "check", lambda item, mapping: None)
    monkeypatch.setattr(plan, "fpga_unavailable_reason", lambda: "no simulator")
    monkeypatch.setattr(plan, "learner_targets", lambda precisions: [Target("torch"), Target("opencl")])
    monkeypatch.setattr(plan, "managers", lambda item: [Target("native"), Target("flat"), Target("opencl")])
    monkeypatch.setattr(plan, "storing_devices", lambda: [Target("opencl"), Target("cuda")])
    item = workloads.load("hopper-ddpg")
    stored = [str(one) for one in plan.mappings(item) if one.storage != Target("cpu")]
    there = [f"opencl-{rmm}-opencl" for rmm in ("native", "flat", "opencl")]
    assert stored == ["torch-opencl-opencl", *there]
    assert not [one for one in plan.mappings(workloads.load("hopper-ppo")) if one.storage != Target("cpu")]


def test_the_board_s_mappings_come_after_those_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "learner_targets", lambda precisions: [Target("torch"), Target("native")])
    monkeypatch.setattr(plan, "managers", lambda item: [Target("flat"), Target("native"), Target("binary")])
    monkeypatch.setattr(compose, "check", lambda item, mapping: None)
    here = ["torch-flat-cpu", "torch-native-cpu", "native-flat-cpu", "native-native-cpu"]
    pairs = ["fpga-flat", "fpga-native", "torch-fpga", "native-fpga", "fpga-fpga"]
    board = [f"{pair}-{where}" for pair in pairs for where in ("cpu", "fpga")]
    item = workloads.load("hopper-ddpg")
    monkeypatch.setattr(plan, "fpga_unavailable_reason", lambda: "")
    assert list(map(str, plan.mappings(item))) == here + board
    uniform = workloads.override(item, "replay.prioritized", False, "test")
    assert list(map(str, plan.mappings(uniform))) == here
    on_policy = ["torch-native-cpu", "native-native-cpu"]
    assert list(map(str, plan.mappings(workloads.load("hopper-ppo")))) == on_policy
    monkeypatch.setattr(plan, "fpga_unavailable_reason", lambda: "no compiler")
    assert list(map(str, plan.mappings(item))) == here


def test_a_cell_hands_on_the_baselines_that_were_compared_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(
        backend: str,
        value: float | None,
        part: str = "theirs",
        device: str = "cpu",
        conditions: str = "",
        **fields: Any,
    ) -> Measurement:
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

    def measurements(**fields: Any) -> list[Measurement]:
        asked.update(fields)
        return stored

    monkeypatch.setattr(plan, "of_this_machine", lambda: "this machine")
    monkeypatch.setattr(plan, "validate", lambda *arguments: list(arguments))
    item = workloads.load("hopper-ddpg")
    made_of = plan.cell(item, 32, 5.0)
    run: Any = SimpleNamespace(measurements=measurements)
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
    """Hopper's transition is 27 words of 4 bytes."""
    counted = training_row("fpga:u200", 1.0, suite="simulated_profile", details={"cycles": 9})
    on_two = replace(counted, primitive="learner.pipeline_step in 2 streams")  # what no round is run with
    monkeypatch.setattr(simulated, "profile", lambda *arguments: [counted, on_two])
    item = workloads.load("hopper-ddpg")
    board = platforms.load(simulated.DEVICES[plan.BOARD].platform).find("fpga")
    first, gather, insert = plan._board_rows(item, 32, Problem(32, 27))
    assert (first.suite, first.device) == ("validation", "fpga")
    assert first.details == {"cycles": 9, "target": "fpga", "board": "fpga:u200"}
    assert [row.primitive for row in (gather, insert)] == ["storage.gather", "storage.insert"]
    for row, rows in ((gather, 32), (insert, 1)):
        assert row.value == pytest.approx(rows * 27 * 4 / (board.memory_gb_s.value * 1e9))
        assert (row.provenance, row.unit, row.batch_size) == (Provenance.MODELLED, "s", 32)
        assert (row.suite, row.workload, row.backend) == ("validation", "hopper-ddpg", "fpga")
        assert row.details["formula"].startswith(f"{rows * 27 * 4} B / ")


@pytest.mark.parametrize("with_board", [True, False])
def test_a_strategy_chooses_among_what_is_here_and_again_with_the_board(
    with_board: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It chose torch here; beside the board, the board."""
    (name, *_) = VALIDATED
    asked: list[tuple[list[str], str]] = []

    def predicted(device: str, chosen: bool) -> Measurement:
        return training_row(device, 1.0, backend=name, details={"chosen": chosen, "terms_s": {}})

    def measurements(item: Any, size: int, profile: Any, platform: Any, strategies: Any) -> list[Measurement]:
        asked.append(([row.backend for row in profile], platform))
        assert (size, strategies) == (32, VALIDATED)
        boards = any(row.backend == "fpga" for row in profile)
        rows = [predicted("torch-flat-cpu", not boards), predicted("native-flat-cpu", False)]
        return rows + [predicted("fpga-fpga-fpga", True)] * boards

    def with_slow_links(*arguments: Any) -> list[Measurement]:
        """With a slow link torch is chosen instead of the board."""
        slow = {"fpga-fpga-fpga": {"chosen": False}, "torch-flat-cpu": {"chosen": True}}
        bands = {device: {"slow_links": band} for device, band in slow.items()}
        return [
            replace(row, details={**row.details, **bands.get(row.device, {})})
            for row in measurements(*arguments)
        ]

    monkeypatch.setattr(predict, "measurements", measurements)
    monkeypatch.setattr(predict, "with_slow_links", with_slow_links)
    monkeypatch.setattr(plan, "of_this_machine", lambda: "here")
    monkeypatch.setattr(simulated, "with_device", lambda platform, board: f"{platform} and {board}")
    monkeypatch.setattr(made, "beside", lambda row, *arguments: row)
    backends = ["torch", "fpga"] if with_board else ["torch"]
    profile = [training_row("cpu", 1.0, backend=backend) for backend in backends]
    given: Any = "given"
    unused: Any = None
    rows = plan._predictions(workloads.load("hopper-ddpg"), Problem(32, 27), profile, unused, given, {})
    found = {row.device: (row.details["chosen"], row.details["chosen_among"]) for row in rows}
    expected = {"torch-flat-cpu": (True, [HERE]), "native-flat-cpu": (False, [])}
    if with_board:
        expected["fpga-fpga-fpga"] = (False, [WITH_SIMULATED])
    assert found == expected
    bands = {row.device: row.details["slow_links"]["chosen"] for row in rows if "slow_links" in row.details}
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
        made = Timings({case.name: one_ms(case.name) for case in cases})
        assert len(made) == len(cases)
        protocols.append(protocol)
        progress(3, 7)
        return made

    monkeypatch.setattr(measure, "measure", measured)
    for module in (plan, validation_rounds):
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
    assert not {row.backend for row in by["time_per_call"]} & set(plan.BESIDE)
    achieved = {(row.device, row.details["loop"]): row for row in by["gradient_steps_per_s"]}
    expected = {
        (str(mapping), str(loop)) for mapping in plan.mappings(item) for loop in plan.loops(item, mapping)
    }
    assert set(achieved) == expected
    assert {round(row.value or 0, 6) for row in achieved.values()} == {1000}
    pieces = {row.primitive for row in by["time_per_call"]}
    assert any(piece.startswith("overlapped_round.") for piece in pieces)
    beside = [row for row in by["predicted_gradient_steps_per_s"] if "error" in row.details]
    assert {row.backend for row in beside} >= {"composed-loop"}
    for row in beside:
        assert row.details["error"] == pytest.approx(row.value / 1000 - 1)
    assert {row.backend for row in by["regret"]} == set(VALIDATED)
    assert not [row.reason for row in by["regret"] if row.status == "not_run"], "every choice was run"
    assert {row.value for row in by["regret"] if row.value is not None} == {0}
    assert by["runtime_overhead"]
    ours = [row for row in by["portability"] if row.backend == "placerl"]
    assert [row.value for row in ours] == [pytest.approx(1000 * size)]
    theirs = [row for row in by["portability"] if row.backend == "sb3"]
    assert [row.value for row in theirs] == [50 * size]


def test_more_precisions_are_more_mappings_in_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    item = workloads.load("cartpole-dqn")
    few, more = plan.mappings(item), plan.mappings(item, ("fixed32",))
    assert not any(mapping.learner.precision != "float32" for mapping in few)
    assert set(few) < set(more)
    assert Mapping.parse("native[fixed32]-native-cpu") in more
    asked = []

    def validated(*arguments: Any) -> list[Measurement]:
        asked.append(arguments[-1])
        return [training_row("native-native-cpu", 1.0)]

    monkeypatch.setattr(plan, "validate", validated)
    run = SimpleNamespace(measurements=lambda **_: [])
    for cell, suite in (
        (plan.cell(item, 32, 1.0), "validation"),
        (plan.cell(item, 32, 1.0, ("fixed32", "dynamic")), "precision_validation"),
    ):
        (row,) = cell.measure(run, silent)  # type: ignore[arg-type]
        assert row.suite == suite == cell.key.partition("/")[0]
    assert row.details["precisions"] == ["fixed32", "dynamic"]
    assert cell.key == "precision_validation/cartpole-dqn/32/fixed32+dynamic"
    assert asked == [(), ("fixed32", "dynamic")]


def test_long_cells_have_the_time_that_one_round_takes_however_short_the_tier_s_cells_are() -> None:
    cells = {cell.key: cell.estimate_s for cell in plan.cells("full", 600)}
    long = {f"validation/{name}/{size}": least_s for (name, size), least_s in plan.LEAST_S.items()}
    assert long == {key: estimate_s for key, estimate_s in cells.items() if estimate_s > 600}


def test_the_standard_tier_has_no_cell_that_takes_longer_than_its_own() -> None:
    assert not {f"validation/{name}/{size}" for name, size in plan.LEAST_S} & {
        cell.key for cell in plan.cells("standard")
    }
