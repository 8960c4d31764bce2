"""The bench of settings: what is trained and given up, what counts as learnt, and the file of what was tried."""

from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness import workloads
from placerl.harness.cli.bench import settings_bench
from placerl.harness.cli.bench.settings_bench import (
    SHIPPED,
    Searched,
    Settings,
    learnt,
    searched,
    settings_of,
)
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Interrupted, Row
from placerl.harness.plan import execution
from placerl.harness.runtime import measured_run
from placerl.harness.store.rows import TrainingResult
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.report import sample

TASK = workloads.load("mountaincar-ddpg")  # threshold 90
SETTINGS = Settings(SHIPPED, TASK, 100)


def ended(seed: int, value: float) -> TrainingResult:
    return TrainingResult(
        suite="run",
        workload=TASK.name,
        primitive="training",
        batch_size=32,
        quantity="evaluation_return",
        provenance=Provenance.MEASURED,
        value=value,
        mapping="native-native-cpu",
        seed=seed,
        threshold=90.0,
    )


@pytest.fixture
def returns(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Trainings that end at a given return by seed, or at 95."""
    given: dict[int, float] = {}

    def train(resolved: object, seed: int, extent: object, report: object) -> list[Row]:
        return [ended(seed, given.get(seed, 95.0))]

    monkeypatch.setattr(measured_run, "train", train)
    return given


def trained(run: object, settings: Settings, seeds: int, misses: int) -> list[str]:
    cells = [settings.cell(seed, misses) for seed in range(seeds)]
    execution.execute(run, cells, silent)
    return [row.status for cell in cells for row in cell.rows(run)]


def test_settings_are_given_up_after_so_many_misses(returns: dict[int, float], tmp_path: Path) -> None:
    returns |= {1: 89.9, 2: -5.0}
    with Store.open(tmp_path / "s.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        assert trained(run, SETTINGS, 5, misses=2) == ["ok", "ok", "ok", "not_run", "not_run"]
        (row,) = SETTINGS.cell(3, 2).rows(run)
        assert row.reason == "not run: with 2 of the 3 seeds before the task was not learnt"
        assert isinstance(row, TrainingResult)
        assert (row.tried, row.seed, row.suite) == (SHIPPED, 3, "bench-settings")


def test_what_was_given_up_is_trained_when_more_misses_are_allowed(
    returns: dict[int, float], tmp_path: Path
) -> None:
    returns |= {0: 0.0}
    with Store.open(tmp_path / "s.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        assert trained(run, SETTINGS, 3, misses=1) == ["ok", "not_run", "not_run"]
        assert trained(run, SETTINGS, 3, misses=2) == ["ok", "ok", "ok"]


def test_a_task_is_learnt_at_its_threshold_at_the_end() -> None:
    row = ended(0, 90.0)
    assert learnt(row) is True
    assert learnt(replace(row, value=89.99)) is False
    assert learnt(replace(row, value=89.99, threshold=None)) is True, "a task without a threshold"
    assert learnt(replace(row, quantity="best_return")) is None
    assert learnt(replace(row, value=None, status="not_run", reason="not run: 10 s")) is None


def test_the_shipped_settings_come_first_and_every_tried_one_is_a_workload() -> None:
    search = searched()
    assert set(search.steps) <= set(workloads.names())
    assert {tried.workload for tried in search.tried} <= set(search.steps)
    for name in search.steps:
        own = settings_of(name, search)
        assert own[0].task == workloads.load(name)
        assert len({one.name for one in own}) == len(own)
        for one in own[1:]:
            assert one.task != own[0].task, "settings that differ in nothing"
            assert one.task.environment == own[0].task.environment


def test_changes_replace_fields_and_leave_the_others() -> None:
    changes = {"algorithm": {"exploration_noise": 2.0}, "replay": {"capacity": 5000}}
    tried = {"workload": TASK.name, "name": "wide", "source": "a test", "changes": changes}
    search = Searched(steps={TASK.name: 10}, tried=(settings_bench.Tried(**tried),))
    _, wide = settings_of(TASK.name, search)
    assert wide.task.replay == TASK.replay.model_copy(update={"capacity": 5000})
    assert wide.task.algorithm.hyperparameters["exploration_noise"] == 2.0
    assert wide.steps == 10


def test_a_change_that_no_workload_allows_is_refused() -> None:
    changes = {"algorithm": {"exploration_noise": -1.0}}
    tried = settings_bench.Tried(workload=TASK.name, name="wrong", source="a test", changes=changes)
    with pytest.raises(UserError, match="exploration_noise"):
        settings_of(TASK.name, Searched(steps={TASK.name: 10}, tried=(tried,)))


def test_the_command_shows_what_ended_where(
    returns: dict[int, float], placerl: Placerl, tmp_path: Path
) -> None:
    returns |= {1: 12.5}
    options = ["--workloads", TASK.name, "--settings", SHIPPED, "--seeds", "2"]
    outcome = placerl(
        "bench", "settings", *options, "--results", str(tmp_path), "--out", str(tmp_path / "out")
    )
    assert outcome.status == 0, outcome.err
    assert "| mountaincar-ddpg | shipped | 300,000 | 90 | 0 | 1 of 2 | 95, 12.5 |" in outcome.out


@pytest.mark.parametrize(("option", "value"), [("--workloads", "nothing"), ("--settings", "nothing")])
def test_a_wrong_option_is_refused(placerl: Placerl, tmp_path: Path, option: str, value: str) -> None:
    refused(placerl("bench", "settings", option, value, "--results", str(tmp_path)), value)
    assert not list(tmp_path.iterdir())


def test_what_was_trained_is_not_trained_again(tmp_path: Path) -> None:
    """A finished training has a row that was not run where no watts can be read."""
    short = workloads.override(TASK, "training.learning_starts", 100, "a test")
    with Store.open(tmp_path / "s.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        cell = Settings("brief", short, 20).cell(0, 2)
        execution.execute(run, [cell], silent)
        assert not cell.due(run)


def test_an_interrupted_training_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(resolved: object, seed: int, extent: object, report: object) -> list[Row]:
        raise Interrupted([ended(seed, 95.0)])

    monkeypatch.setattr(measured_run, "train", train)
    with Store.open(tmp_path / "s.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        cell = SETTINGS.cell(0, 2)
        with pytest.raises(Interrupted):
            execution.execute(run, [cell], silent)
        assert cell.due(run)
        assert not cell.rows(run)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('workload = "mountain"\n[tried.changes]\nreplay.capacity = 5', "mountain"),
        ('workload = "mountaincar-ddpg"\n[tried.changes]\nreplays.capacity = 5', "replays"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "settings.toml"
    head = '[steps]\nmountaincar-ddpg = 10\n[[tried]]\nname = "x"\nsource = "a test"\n'
    path.write_text(head + text)
    with pytest.raises(UserError, match=rf"tried x: .*{said}"):
        searched(path)


def test_a_training_is_stored_with_the_name_of_its_settings(tmp_path: Path) -> None:
    short = workloads.override(TASK, "training.learning_starts", 100, "a test")
    with Store.open(tmp_path / "s.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        cell = Settings("brief", short, 20).cell(0, 2)
        execution.execute(run, [cell], silent)
        rows = [row for row in cell.rows(run) if isinstance(row, TrainingResult)]
    assert {row.tried for row in rows} == {"brief"}
    assert any(learnt(row) is not None for row in rows)
