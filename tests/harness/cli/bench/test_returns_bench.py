"""The bench of returns: groups of seeds, scores by hand, and which mapping learns as much as the first."""

import sys
from dataclasses import replace

import pytest

from placerl.harness.cli.bench import returns_bench
from placerl.harness.cli.bench.returns_bench import Study, at_least, table
from placerl.harness.compare import registry
from placerl.harness.compare.learning import LearnedTask
from placerl.harness.compare.protocol import Worker
from placerl.harness.core.progress import silent
from placerl.harness.mapping import Mapping
from placerl.harness.plan import execution
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.report import sample

# Answers each job with returns of 10 per seed, 5 less under bfloat16.
WORKER = """
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    value = 10 * job["seed"] - (5 if "bfloat16" in sys.argv[1] else 0) + job["batch_size"]
    print(json.dumps({"gradient_steps": job["gradient_steps"], "environment_steps": 20, "wall_s": 1.0,
                      "episode_returns": [value], "versions": {}}), flush=True)
"""
FLOAT, BFLOAT = map(Mapping.parse, returns_bench.MAPPINGS)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        registry, "own_worker", lambda mapping: Worker([sys.executable, "-c", WORKER, mapping])
    )


def study(seeds: int = 5) -> Study:
    return Study(LearnedTask("cartpole-dqn", 100, 8), (FLOAT, BFLOAT), tuple(range(seeds)))


def test_the_mappings_of_a_seed_follow_each_other() -> None:
    keys = [cell.key for cell in study(2).cells()]
    start = "bench-returns/cartpole-dqn/8/100"
    assert keys == [f"{start}/{mapping}/seed{seed}" for seed in (0, 1) for mapping in (FLOAT, BFLOAT)]


def test_a_score_is_the_mean_of_the_middle_seeds_and_is_compared_with_the_first_mappings(
    fake: None, tmp_path
) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        asked = study()
        execution.execute(run, asked.cells(), silent)
        rows = run.measurements()
        floats, rounded = asked.summaries(rows)
        assert (floats.value, rounded.value) == (28, 23), "10 x seed + batch size, 5 less in bfloat16"
        assert floats.samples == (8, 18, 28, 38, 48)
        assert (floats.who, rounded.who) == ("native", "native[bfloat16]")
        assert (rounded.where, rounded.batch_size, rounded.suite) == (str(BFLOAT), 8, "bench-returns")
        assert floats.low is not None
        assert floats.low <= 23
        assert floats.at_least_first is None
        assert rounded.at_least_first is True
        text = table([asked], rows)
        assert "| cartpole-dqn | native[bfloat16]-native-cpu | 8 | 100 | 23 [" in text
        assert text.rstrip().endswith("| 3, 13, 23, 33, 43 | yes |")
        assert not run.measurements(suite="learn"), "no summary of `placerl learn` counts them"


def test_below_the_interval_is_less_and_too_few_seeds_are_no_verdict(fake: None, tmp_path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        few = study(3)
        execution.execute(run, few.cells(), silent)
        assert [row.at_least_first for row in few.summaries(run.measurements())] == [None, None]
        more = study(5)
        execution.execute(run, more.cells(), silent)
        floats, rounded = more.summaries(run.measurements())
    assert floats.low is not None
    lower = replace(rounded, value=floats.low - 1, low=None, high=None)
    assert at_least(lower, floats) is False
    assert at_least(replace(rounded, value=floats.low, low=None, high=None), floats) is True


def test_the_command_states_the_returns(fake: None, placerl: Placerl, tmp_path) -> None:
    folders = ["--results", str(tmp_path), "--out", str(tmp_path / "out")]
    options = ["--workloads", "cartpole-dqn", "--steps", "100", "--batch-size", "8", "--seeds", "2"]
    outcome = placerl("bench", "returns", *options, *folders)
    assert outcome.status == 0
    assert "| 8, 18 |" in outcome.out
    assert (tmp_path / "out" / "table.md").read_text() in outcome.out


def test_a_training_that_fails_is_named_and_is_status_1(
    placerl: Placerl, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = [sys.executable, "-c", "raise SystemExit(3)"]
    monkeypatch.setattr(registry, "own_worker", lambda mapping: Worker(dying))
    folders = ["--results", str(tmp_path), "--out", str(tmp_path / "out")]
    options = ["--workloads", "cartpole-dqn", "--mappings", str(FLOAT), "--steps", "100", "--seeds", "1"]
    outcome = placerl("bench", "returns", *options, *folders)
    assert outcome.status == 1
    assert f"Failed, 1: bench-returns/cartpole-dqn/own/100/{FLOAT}/seed0;" in outcome.err
    assert "every seed failed" in outcome.out


@pytest.mark.parametrize(
    ("option", "value"), [("--workloads", "nothing"), ("--mappings", "nothing"), ("--steps", "1")]
)
def test_a_wrong_option_is_refused(placerl: Placerl, tmp_path, option: str, value: str) -> None:
    refused(placerl("bench", "returns", option, value, "--results", str(tmp_path)), value)
    assert not list(tmp_path.iterdir())
