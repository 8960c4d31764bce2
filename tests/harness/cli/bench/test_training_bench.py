"""The benchmark of whole trainings: its cells, its goals, and a table of systems whose speed is known."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness import workloads
from placerl.harness.cli.bench import training_bench
from placerl.harness.cli.bench.training_bench import CELLS, judged, lines
from placerl.harness.compare import registry
from placerl.harness.compare.parts import OurSide, our_side
from placerl.harness.compare.protocol import Worker
from placerl.harness.mapping import Mapping
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused

FAKE = Path(__file__).parents[2] / "compare" / "nasty_worker.py"
MANY = "1000000"
CELL = {cell.name: cell for cell in CELLS}


@pytest.fixture
def systems(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Fake systems by name, a command line of `nasty_worker` each."""
    commands: dict[str, list[str]] = {}

    def start(name: str) -> Worker:
        return Worker([sys.executable, str(FAKE), *commands[name]])

    monkeypatch.setattr(registry, "own_worker", lambda mapping, **_: start("placerl"))
    monkeypatch.setattr(registry, "baseline_worker", lambda name, **_: start(name))
    monkeypatch.setattr(registry, "build_baselines", lambda names: dict.fromkeys(names))
    return commands


def test_cells_are_the_workloads_of_their_goals() -> None:
    once = CELL["cartpole-ppo-1-epoch"].item()
    assert once.algorithm.hyperparameters["epochs"] == 1
    assert once.network.hidden == (64, 64)
    for name in ("cartpole-dqn-8-8", "cartpole-ddpg-8-8"):
        one, sixteen = CELL[name].item(), CELL[f"{name}-16-actors"].item()
        assert one.network.hidden == sixteen.network.hidden == (8, 8)
        assert one.training.batch_size == sixteen.training.batch_size == 32
        assert one.replay.prioritized
        assert sixteen.replay.prioritized
        assert (one.training.actors, sixteen.training.actors) == (1, 16)
    hopper = CELL["hopper-ppo-sb3"].item()
    settings = hopper.algorithm.hyperparameters
    assert (settings["trajectory_length"], settings["epochs"], settings["clip"]) == (2048, 10, 0.2)
    assert (hopper.training.batch_size, hopper.training.actors, settings["target_kl"]) == (64, 1, None)
    assert settings["policy_learning_rate"] == settings["value_learning_rate"] == 3e-4


def test_the_whole_loop_is_cpp_where_the_mapping_and_the_replay_allow_it() -> None:
    native, whole = OurSide(native_environments=True), OurSide(threads_native=True)
    mapping = Mapping.parse("native-native-cpu")
    assert our_side(CELL["hopper-ddpg-256"].item(), mapping) == whole
    assert our_side(CELL["pendulum-sac-64"].item(), mapping) == whole
    assert our_side(CELL["cartpole-ppo-1-epoch"].item(), mapping) == native
    assert our_side(workloads.load("pendulum-ddpg"), mapping) == native, "its replay is uniform"
    assert our_side(CELL["hopper-ddpg-256"].item(), Mapping.parse("torch-native-cpu")) == native


def test_a_cell_states_every_baseline_it_can_have() -> None:
    names = set(registry.baseline_names())
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    for cell in CELLS:
        assert cell.name not in workloads.names()
        assert set(cell.baselines) <= names
        assert not cell.level_with or cell.level_with in cell.baselines
        assert bool(cell.rate or cell.alone) == bool(cell.at_least)
        assert [cell.rate, cell.alone, cell.level_with].count("") == 2
        assert cell.alone in ("", "environment", "learner")


def test_the_table_has_rates_reasons_and_goals(
    placerl: Placerl, systems: dict[str, list[str]], tmp_path: Path
) -> None:
    systems |= {"placerl": ["rate", "3000", MANY], "sb3": ["rate", "1000", MANY], "sbx": ["refuse"]}
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    options = ["--cells", "cartpole-dqn-8-8-16", "--baselines", "sb3,sbx", "--budget-s", "0", "--no-returns"]
    outcome = placerl("bench", "training", *options, *folders)
    assert outcome.status == 0
    text = (tmp_path / "out" / "table.md").read_text()
    assert text in outcome.out
    assert "GFLOP/s in float32" in text
    assert "under native-native-cpu" in text
    made = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("|")}
    assert "faster; returns not compared" in made["sb3"]
    assert "not run: sbx cannot do it" in made["sbx"]
    assert "missed" in text
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        rows = store.measurements(suite="compare", workload="cartpole-dqn-8-8-16-actors")
    rate = next(row for row in rows if row.part == "theirs" and row.value)
    assert rate.start_s > 0
    found = {line[0]: line for line in lines(rows, 32)}
    assert list(found) == ["this project", "sb3", "sbx"]
    trained, steps = (float(found["sb3"][column].replace(",", "")) for column in (3, 1))
    assert trained == pytest.approx(32 * steps, rel=1e-3)

    ours = next(row for row in rows if row.part == "ours" and row.value is not None)
    cell = CELL["cartpole-dqn-8-8-16-actors"]
    for at_least, verdict in ((100.0, "met"), (1e6, "missed"), (ours.value, "no verdict")):
        some = [replace(ours, low=ours.value * 0.9, high=ours.value * 1.1)]
        assert judged(replace(cell, at_least=at_least), some).endswith(verdict)
    by_samples = replace(cell, rate="trained", at_least=32 * 100.0)
    assert f"{ours.value * 32:,.4g}/s, met" in judged(by_samples, [ours])
    level = replace(cell, level_with="sb3")
    assert judged(level, rows).endswith("x its throughput, met in throughput (faster; returns not compared)")
    ratio = next(row for row in rows if row.quantity == "throughput_ratio" and row.value is not None)
    for verdict, said in (
        ("faster", "met (faster)"),
        ("slower", "missed (slower)"),
        ("no verdict", "no verdict"),  # as much as this project differs from itself, whatever the interval
        ("faster, but learns less", "faster, but learns less"),
    ):
        row = replace(ratio, value=3.0, low=2.9, high=3.1, verdict=verdict)
        assert judged(level, [row]).endswith(f"3x its throughput, {said}")
    assert "not run" in judged(replace(cell, level_with="sbx"), rows)


def test_a_goal_relative_to_a_part_alone_is_judged_by_the_part_of_the_time(
    placerl: Placerl, systems: dict[str, list[str]], tmp_path: Path
) -> None:
    """The learner has 0.75 of the time in some rounds, and 0.85 in the others."""
    systems |= {"placerl": ["parts", "0.75", "0.85"], "sb3": ["rate", "100", MANY]}
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    options = ["--cells", "hopper-ddpg-256", "--baselines", "sb3", "--budget-s", "0", "--no-returns"]
    outcome = placerl("bench", "training", *options, *folders)
    assert "Goal: 95% of the rate of the learner alone: " in outcome.out
    assert " of the time, missed" in outcome.out
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        rows = store.measurements(suite="compare", workload="hopper-ddpg-256")
    parts = {row.part: row for row in rows if row.quantity == "fraction_of_time"}
    assert set(parts) == {"ours, learner, of the time", "ours, environment, of the time"}
    learner = parts["ours, learner, of the time"]
    assert sorted({round(sample, 6) for sample in learner.samples}) == [0.75, 0.85]
    cell = CELL["hopper-ddpg-256"]
    for at_least, verdict in ((0.7, "met"), (0.8, "no verdict"), (0.9, "missed")):
        assert judged(replace(cell, at_least=at_least), rows).endswith(f" of the time, {verdict}")
    no_parts = [row for row in rows if row.quantity != "fraction_of_time"]
    assert judged(cell, no_parts).endswith("not run: this project or the other side was not timed")


def test_pytorch_s_libraries_run_once_more_with_subnormals_flushed(
    placerl: Placerl, systems: dict[str, list[str]], tmp_path: Path
) -> None:
    """With its second rate, a system that can flush is twice as fast; SBX computes with JAX."""
    systems |= {"placerl": ["rate", "3000", MANY], "sb3": ["flushable", "500", "1000"]}
    systems |= {"sbx": ["flushable", "500", "1000"]}
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    options = ["--cells", "cartpole-dqn-8-8-16", "--baselines", "sb3,sbx", "--budget-s", "0", "--no-returns"]
    assert placerl("bench", "training", "--flush-subnormals", *options, *folders).status == 0
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        found = {line[0]: line for line in lines(store.measurements(suite="compare"), 32)}
    rates = {name: float(line[1].replace(",", "")) for name, line in found.items() if name != "this project"}
    assert rates == {
        "sb3": pytest.approx(500, rel=0.02),
        "sbx": pytest.approx(500, rel=0.02),
        "sb3, subnormals flushed": pytest.approx(1000, rel=0.02),
    }


def test_the_libraries_that_flush_are_those_that_compute_with_pytorch() -> None:
    """SBX's own requirements have PyTorch too, for Stable-Baselines3; it computes with JAX."""
    pinned = {
        name
        for name in training_bench.PEERS
        if re.search(r"^torch\b", (registry.BASELINES / name / "requirements.txt").read_text(), re.MULTILINE)
    }
    assert pinned - {"sbx"} == set(training_bench.PYTORCH)


def test_what_is_asked_for_must_exist(placerl: Placerl, tmp_path: Path) -> None:
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    refused(placerl("bench", "training", "--cells", "chess", *folders), "--cells: found 'chess'")
    refused(placerl("bench", "training", "--baselines", "magic", *folders), "--baselines: found 'magic'")
    for wanted in ("none", "pufferlib"):  # the cell has PPO's libraries for no algorithm but PPO
        asked = ("--cells", "pendulum-sac", "--baselines", wanted)
        outcome = placerl("bench", "training", *asked, *folders)
        refused(outcome, f"--baselines: found '{wanted}'; allowed: one at least of sb3, sbx,")
    assert not list(tmp_path.iterdir())
    assert training_bench.DEFAULT_MAPPING == "native-native-cpu"


def test_a_cell_without_any_of_the_baselines_is_named(
    placerl: Placerl, systems: dict[str, list[str]], tmp_path: Path
) -> None:
    systems |= {"placerl": ["rate", "3000", MANY], "pufferlib": ["refuse"]}
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    options = ["--cells", "cartpole", "--baselines", "pufferlib", "--budget-s", "0", "--no-returns"]
    outcome = placerl("bench", "training", *options, *folders)
    assert (
        "left out: cartpole-dqn-8-8-16-actors, which is compared with sb3, sbx, cleanrl_style, torchrl"
        in outcome.err
    )
    assert "## cartpole-ppo-1-epoch" in outcome.out
