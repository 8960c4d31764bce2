"""The kinds of cells of a run: what they measure, under which key, and when they are due again."""

from collections.abc import Callable

import pytest

from placerl.harness import papers, workloads
from placerl.harness.compare.parts import ComparedPart, OurSide, label
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import STRICT, Schedule
from placerl.harness.mapping import DEFAULT_STRATEGY, Mapping
from placerl.harness.plan import cell_kinds, execution, plan, under_load
from placerl.harness.plan.tiers import TIERS, Tier
from placerl.harness.profile import simulated
from placerl.harness.report import tables
from placerl.harness.runtime.measured_run import Extent
from placerl.harness.runtime.resolve import resolve
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run, Store
from placerl.harness.workloads import Workload
from placerl.primitives.fpga.cycles import timed_block
from tests.harness.old_form import replace, row_of
from tests.harness.store.rows import row

TINY = Tier("tiny", ("cartpole-dqn",), (32,), profile_s=1, experiment_s=1, run_s=1, compare_s=1, seeds=2)


def test_simulated_and_modelled_cells_say_so() -> None:
    item = workloads.load("cartpole-dqn")
    assert cell_kinds.profile_cell(item, 32, TINY).provenance is Provenance.MEASURED
    assert cell_kinds.simulated_cell(item, 32, "fpga:u200").provenance is Provenance.SIMULATED
    assert cell_kinds.prediction_cell(item, 32).provenance is Provenance.MODELLED
    assert cell_kinds.simulated_prediction_cell(item, 32, "fpga:u200").provenance is Provenance.MODELLED
    of_papers = {cell.key: cell.provenance for cell in papers.cells(TINY)}
    assert of_papers["claim/MAP-T5"] is Provenance.MODELLED
    assert of_papers["claim/FIX-F10"] is Provenance.SIMULATED
    quick = {cell.key: cell.provenance for cell in papers.cells(TIERS["quick"])}
    assert quick["claim/FIX-F10"] is Provenance.SIMULATED
    assert of_papers["claim/PAL-F9"] is Provenance.MEASURED


CARTPOLE = workloads.load("cartpole-dqn")


GIVEN, CHOSEN = Mapping.parse("torch-native-cpu"), Mapping.parse("native-native-cpu")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What trainings are asked for; the run's predictions chose `CHOSEN`."""
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(cell_kinds.measured_run, "train", lambda *arguments: asked.append(arguments) or [])
    monkeypatch.setattr(cell_kinds, "chosen_mapping", lambda run, item, batch_size: CHOSEN)
    return asked


def test_a_run_trains_as_was_resolved(run: Run, trained: list[tuple[object, ...]]) -> None:
    given = resolve(Schedule(overlap=4), CARTPOLE, GIVEN)
    cell = cell_kinds.run_cell(CARTPOLE, 5, Extent(7), given)
    cell.measure(run, silent)
    assert trained == [(given, 5, Extent(7), silent)]
    assert (cell.estimate_s, cell.chain, cell.needs) == (7, "cartpole-dqn", ())


def test_a_run_without_a_mapping_trains_under_the_chosen_one(
    run: Run, trained: list[tuple[object, ...]]
) -> None:
    item = workloads.with_batch_size(CARTPOLE, 64, "test")
    cell = cell_kinds.run_cell(item, 5, Extent(7))
    cell.measure(run, silent)
    assert trained == [(resolve(STRICT, item, CHOSEN), 5, Extent(7), silent)]
    assert cell.needs == ("prediction/cartpole-dqn/64",)


@pytest.mark.parametrize(
    ("given", "under"),
    [
        (None, ""),
        (STRICT, "/torch-native-cpu"),
        (Schedule(overlap=4), "/torch-native-cpu/overlap=4"),
    ],
)
def test_a_run_s_key_says_under_what_it_trains(given: Schedule | None, under: str) -> None:
    resolved = None if given is None else resolve(given, CARTPOLE, GIVEN)
    cell = cell_kinds.run_cell(CARTPOLE, 5, Extent(7), resolved)
    assert cell.key == f"run/cartpole-dqn/32/seed5{under}"


@pytest.mark.parametrize(
    "cell",
    [cell_kinds.run_cell(CARTPOLE, 0, Extent(1)), cell_kinds.compare_cell(CARTPOLE, "sb3", TIERS["quick"])],
    ids=["run", "compare"],
)
def test_a_run_that_was_cut_short_is_due_again_and_a_whole_one_is_not(cell: Cell, run: Run) -> None:
    assert not cell.stale(run)
    cell.store(run, [row(1.0), replace(row(1.0), value=None, status="failed", reason="Ctrl-C")])
    assert cell.finished(run)
    assert cell.stale(run)
    cell.store(run, [row(2.0)])
    assert not cell.stale(run)
    assert [one.value for one in cell.rows(run)] == [2.0], "the last attempt's"


PREDICTION = row_of(
    suite="prediction",
    workload="cartpole-dqn",
    primitive="training",
    backend=DEFAULT_STRATEGY,
    batch_size=32,
    quantity="gradient_steps_per_s",
    provenance=Provenance.MODELLED,
    value=1.0,
    details={"mapping": str(CHOSEN), "chosen": True},
)


def test_a_prediction_from_a_profile_that_failed_is_made_again_once_the_profile_is_measured(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [True]

    def profile(*_: object) -> list[Row]:
        if broken:
            raise RuntimeError("killed")
        times = {"suite": "profile", "quantity": "time_per_call", "unit": "s"}
        return [replace(row(1.0), **times, workload="cartpole-dqn", batch_size=32)]

    def predictions(item: Workload, size: int, table: list[Row], *_: object) -> list[Row]:
        return [
            PREDICTION
            if table
            else replace(PREDICTION, status="not_run", reason="needs", value=None, details={"chosen": False})
        ]

    monkeypatch.setattr(cell_kinds.measured, "profile", profile)
    monkeypatch.setattr(cell_kinds.predict, "measurements", predictions)
    cells = [cell_kinds.profile_cell(CARTPOLE, 32, TINY), cell_kinds.prediction_cell(CARTPOLE, 32)]
    execution.execute(run, cells, silent)
    assert cells[1].stale(run)
    broken.clear()
    execution.execute(run, cells, silent)
    assert cell_kinds.chosen_mapping(run, CARTPOLE, 32) == CHOSEN
    assert not any(cell.due(run) for cell in cells)


@pytest.mark.parametrize("precisions", [(), ("bfloat16",)])
def test_a_prediction_is_stale_without_a_choice_or_if_its_times_were_measured_later(
    run: Run, precisions: tuple[str, ...]
) -> None:
    profile = cell_kinds.profile_cell(CARTPOLE, 32, TINY, precisions)
    prediction = cell_kinds.prediction_cell(CARTPOLE, 32, precisions)
    profile.store(run, [row(1.0)])
    prediction.store(run, [replace(PREDICTION, details={})])
    assert prediction.stale(run)
    prediction.store(run, [PREDICTION])
    assert not prediction.stale(run)
    profile.store(run, [row(2.0)])
    assert prediction.stale(run)
    prediction.store(run, [PREDICTION])
    assert not prediction.stale(run)


def test_the_chosen_mapping_is_that_of_the_last_prediction(run: Run) -> None:
    cell = cell_kinds.prediction_cell(CARTPOLE, 32)
    for mapping in (GIVEN, CHOSEN):
        cell.store(run, [replace(PREDICTION, details={"mapping": str(mapping), "chosen": True})])
        assert cell_kinds.chosen_mapping(run, CARTPOLE, 32) == mapping


@pytest.mark.parametrize(
    ("options", "key", "size"),
    [
        ({}, "compare/cartpole-dqn/sb3", CARTPOLE.training.batch_size),
        ({"batch_size": 64}, "compare/cartpole-dqn/sb3/64", 64),
        ({"environment": False}, None, CARTPOLE.training.batch_size),
        (
            {"mapping": GIVEN},
            "compare/cartpole-dqn/sb3, this project with torch-native-cpu",
            CARTPOLE.training.batch_size,
        ),
    ],
)
def test_a_comparison_is_of_the_chosen_mapping_at_its_batch_size(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: dict, key: str | None, size: int
) -> None:
    asked: list[tuple] = []
    monkeypatch.setattr(cell_kinds, "chosen_mapping", lambda run, item, batch_size: (CHOSEN, batch_size))
    monkeypatch.setattr(
        cell_kinds.rounds, "compare", lambda *arguments, **named: asked.append((arguments, named)) or []
    )
    cell = cell_kinds.compare_cell(CARTPOLE, "sb3", replace(TINY, compare_s=17), **options)
    cell.measure(run, silent)
    ((arguments, named),) = asked
    given = options.get("mapping")
    assert arguments == (CARTPOLE, given or (CHOSEN, size), ["sb3"])
    environment = options.get("environment", True)
    settings = named["settings"]
    assert (named["budget_s"], settings.batch_size, settings.environment) == (17, size, environment)
    assert settings.asked == (given is not None)
    part = ComparedPart.TRAINING if environment else ComparedPart.LEARNER_AND_REPLAY
    assert cell.key == (key or f"compare/cartpole-dqn/{label('sb3', part)}")
    assert cell.key != "compare/cartpole-dqn/sb3" or environment
    assert (cell.estimate_s, cell.baselines) == (17, ("sb3",))
    assert cell.needs == (() if given else (f"prediction/cartpole-dqn/{size}",))


def test_a_library_is_compared_on_its_environments_and_as_this_project_is_shipped() -> None:
    tier = TIERS["standard"]
    assert tier.returns is not None
    plain, shipped = (
        cell_kinds.compare_cell(CARTPOLE, "sb3", tier, ours=side) for side in cell_kinds.sides(CARTPOLE)
    )
    assert (plain.label, shipped.label) == ("sb3", "sb3, this project with native environments")
    assert plain.estimate_s - shipped.estimate_s == tier.returns.budget_s, "it learns the same on both"
    assert cell_kinds.sides(workloads.load("pong-dqn")) == (OurSide(),)
    labels = [cell.label for cell in plan.plan(tier) if cell.key.startswith("compare/cartpole-dqn/")]
    assert {plain.label, shipped.label} <= set(labels)


def test_threads_that_run_free_are_compared_on_all_cores(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_kinds, "usable_cores", lambda: [0, 3])
    monkeypatch.setattr(cell_kinds.rounds, "compare", lambda *_, settings, **__: [settings])
    cell = cell_kinds.compare_cell(
        CARTPOLE, "sb3", TIERS["quick"], ours=OurSide(concurrent=True), mapping=GIVEN
    )
    assert cell.label.startswith("sb3, this project with threads that run free and ")
    assert cell.label.endswith(", on 2 cores")
    (settings,) = cell.measure(run, silent)
    assert (settings.threads, settings.cpus) == (2, [0, 3])


@pytest.mark.parametrize("options", [{}, {"mapping": GIVEN}, {"ours": OurSide(envpool=True)}])
def test_a_replay_alone_is_compared_under_no_mapping_and_trains_nothing(options: dict) -> None:
    cell = cell_kinds.compare_cell(CARTPOLE, "cpprb", replace(TIERS["standard"], compare_s=17), **options)
    assert cell.label == label("cpprb", ComparedPart.REPLAY) == "cpprb, replay alone"
    assert cell.key == f"compare/cartpole-dqn/{cell.label}"
    assert cell.estimate_s == 17


def test_comparisons_that_failed_are_told_apart_in_a_report(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(*_: object, **__: object) -> list[Row]:
        raise RuntimeError("the library died")

    monkeypatch.setattr(cell_kinds, "chosen_mapping", lambda *_: CHOSEN)
    monkeypatch.setattr(cell_kinds.rounds, "compare", dead)
    whole = [cell_kinds.compare_cell(CARTPOLE, baseline, TINY) for baseline in ("rllib", "sb3")]
    part = cell_kinds.compare_cell(CARTPOLE, "rllib", TINY, 64, environment=False)
    execution.execute(run, [*whole, part], silent)
    frame = Store.open(run.path).frame()
    found = {(one.batch_size, one.baseline): one.verdict for one in tables.comparisons(frame)}
    size = CARTPOLE.training.batch_size
    alone = label("rllib", ComparedPart.LEARNER_AND_REPLAY)
    assert found == {(size, "rllib"): "failed", (size, "sb3"): "failed", (64, alone): "failed"}


@pytest.mark.parametrize("make", [cell_kinds.simulated_cell, cell_kinds.simulated_replay_cell])
def test_simulated_rows_are_due_again_once_what_they_need_is_installed(
    run: Run, monkeypatch: pytest.MonkeyPatch, make: Callable[[Workload, int, str], Cell]
) -> None:
    missing = ["not installed: amaranth"]
    monkeypatch.setattr(timed_block, "unavailable_reason", lambda: missing[0])
    cell = make(CARTPOLE, 32, "fpga:u200")
    rows = execution.measure_now(run, cell, silent)
    assert {row.status for row in rows} == {"not_run"}
    assert not cell.due(run)
    missing[0] = ""
    assert cell.due(run)
    cell.store(run, [*rows, row(1.0)])  # a part of it cannot be run with the tools either
    assert not cell.due(run)


def test_the_rows_of_one_simulated_device_and_what_was_timed_make_its_predictions(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = replace(
        row(1.0), suite="profile", quantity="time_per_call", unit="s", workload="cartpole-dqn", batch_size=32
    )
    counted = [replace(timed, suite=simulated.SUITE, device=name) for name in ("fpga:u200", "fpga:u50")]
    others = [
        replace(timed, workload="hopper-ddpg"),
        replace(timed, batch_size=64),
        replace(timed, suite="run"),
    ]
    run.finish("profile", [timed, *counted, *others])
    monkeypatch.setattr(under_load, "last_noise", lambda: None)
    monkeypatch.setattr(simulated, "predictions", lambda item, size, table, device: table)
    table = cell_kinds.simulated_prediction_cell(CARTPOLE, 32, "fpga:u200").measure(run, silent)
    assert [(one.suite, one.device) for one in table] == [
        ("profile", ""),
        (simulated.SUITE, "fpga:u200"),
    ]
