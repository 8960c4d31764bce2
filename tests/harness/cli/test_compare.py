"""`placerl validate`, `placerl learn` and `placerl compare`: what cannot be set beside one another is refused first."""

from pathlib import Path

import pytest

from placerl.harness.cli.common import named_baselines
from placerl.harness.compare import learning, night_learning, registry
from placerl.harness.compare.learning import LearnedTask
from placerl.harness.compare.own_settings import goals
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.plan import execution
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.compare.test_curves import Learner


def test_a_cell_of_the_validation_that_is_not_there_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    outcome = placerl("validate", "--only", "tetris", "--results", str(results))
    refused(outcome, "--only", "tetris", "validation/cartpole-ddpg/32")
    assert not results.exists()


def test_learning_under_a_mapping_to_what_is_not_there_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused(placerl("learn", "--mapping", "abacus-native-cpu", "--results", str(results)), "abacus")
    assert not results.exists()


def test_only_what_trains_can_be_compared_in_learning(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused(placerl("learn", "--baselines", "sb3,cpprb", "--results", str(results)), "found 'cpprb'", "sb3")
    assert not results.exists()
    assert "cpprb" in named_baselines("all")
    assert "cpprb" not in named_baselines("all", training=True)


def test_a_baseline_that_is_named_twice_is_run_once() -> None:
    assert named_baselines("sb3,cpprb, sb3") == ["sb3", "cpprb"]


def test_learning_that_failed_says_which(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own_worker", "baseline_worker"):  # none of whose episodes ends
        monkeypatch.setattr(registry, name, lambda of: Learner(lambda steps: 0.0))
    monkeypatch.setitem(learning.TASKS, "quick", (LearnedTask("cartpole-ddpg", 20),))
    outcome = placerl("learn", "--baselines", "sb3", "--results", str(tmp_path))
    assert outcome.status == 1
    for system in ("placerl", "sb3"):
        assert f"learn/cartpole-ddpg/{system}/summary" in outcome.err


def test_at_night_a_library_without_settings_of_its_own_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    night = ("learn", "--tier", "night", "--results", str(results))
    refused(placerl(*night, "--baselines", "sb3,pfrl"), "found 'pfrl'", "sb3, sbx")
    refused(placerl(*night, "--mapping", "torch-native-cpu"), "--mapping", "native-native-cpu")
    assert not results.exists()


def test_a_night_of_learning_prints_its_goals_and_all_together(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "own_worker", lambda mapping, **_: Learner(lambda steps: 475.0))
    monkeypatch.setattr(registry, "is_built", lambda name: False)
    some = {"cartpole-ppo": goals()["cartpole-ppo"]}
    monkeypatch.setattr(night_learning, "goals", lambda: some)
    night = ("learn", "--tier", "night", "--baselines", "sb3", "--results", str(tmp_path))
    outcome = placerl(*night)
    assert outcome.status == 0, outcome.err
    for said in (
        "475 [475, 475]",
        "1.00 [1.00, 1.00]",
        "not run: needs its environment: placerl baselines sb3",
    ):
        assert said in outcome.out
    assert placerl(*night, "--json").out.count('"kind": "learning_curve"') == 10


def test_an_unknown_baseline_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    outcome = placerl(
        "compare", "cartpole-dqn", "--baselines", "sb3,sb4", "--results", str(tmp_path / "results")
    )
    refused(outcome, "sb4", "sb3")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("cartpole-ppo", "--alone"), ("--alone", "learns from a replay")),
        (("cartpole-dqn", "--alone", "--envpool"), ("--envpool", "no environment")),
        (("cartpole-dqn", "--baselines", "sb3,cpprb", "--envpool"), ("--envpool", "cpprb")),
        (("cartpole-dqn", "--baselines", "cpprb", "--mapping", "torch-native-cpu"), ("--mapping", "cpprb")),
        (("cartpole-ddpg", "--envpool"), ("envpool", "allowed")),
        (("cartpole-dqn", "--mapping", "abacus-native-cpu"), ("abacus", "allowed")),
        (("cartpole-dqn", "--mapping", "native"), ("native", "allowed")),
        (("cartpole-dqn", "--mapping", "native-fpga-cpu"), ("native-fpga-cpu", "virtual time")),
    ],
)
def test_what_cannot_be_compared_is_refused_first(
    placerl: Placerl, tmp_path: Path, asked: tuple[str, ...], said: tuple[str, str]
) -> None:
    refused(placerl("compare", *asked, "--results", str(tmp_path / "results")), *said)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("asked", "labels"),
    [
        ((), ["sb3, this project with {}", "sb3, this project with native environments and {}"]),
        (("--alone",), ["sb3, learner and replay alone, this project with {}"]),
    ],
)
def test_each_library_has_a_row_on_its_environments_and_one_on_native_ones(
    placerl: Placerl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[str, ...],
    labels: list[str],
) -> None:
    measured: list[str] = []

    def measure_now(run: Run, cell: Cell, report: Report) -> list[Row]:
        measured.append(cell.label)
        return []

    monkeypatch.setattr(execution, "measure_now", measure_now)
    mapping, results = "torch-native-cpu", str(tmp_path / "results")
    outcome = placerl("compare", "cartpole-dqn", "--mapping", mapping, *asked, "--results", results)
    assert outcome.status == 0
    assert measured == [one.format(mapping) for one in labels]


def test_of_all_baselines_those_that_are_a_replay_alone_do_not_refuse_a_mapping(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def measure_now(run: Run, cell: Cell, report: Report) -> list[Row]:
        measured.append(cell.label)
        return []

    monkeypatch.setattr(execution, "measure_now", measure_now)
    mapping = ("--mapping", "torch-native-cpu")
    outcome = placerl(
        "compare", "cartpole-dqn", "--baselines", "all", *mapping, "--results", str(tmp_path / "results")
    )
    assert outcome.status == 0
    assert "sb3, this project with torch-native-cpu" in measured
    assert "cpprb, replay alone" in measured
