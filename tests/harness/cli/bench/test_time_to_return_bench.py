"""The bench of seconds to a return: the median over seeds of which some never arrive, and its table."""

from pathlib import Path

import pytest

from placerl.harness.cli.bench.time_to_return_bench import SUITE, table
from placerl.harness.compare import registry
from placerl.harness.compare.own_settings import goals
from placerl.harness.core.provenance import Provenance
from placerl.harness.store.rows import LearningCurve
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.compare.test_curves import Learner

GOAL = goals()["cartpole-ppo"]


def row(system: str, seed: int, seconds: float | None) -> LearningCurve:
    returns = [20.0] * 5 if seconds is None else [500.0] * 5
    return LearningCurve(
        suite=SUITE,
        workload=GOAL.name,
        primitive="training",
        quantity="evaluation_return",
        provenance=Provenance.MEASURED,
        value=returns[-1],
        system=system,
        seed=seed,
        steps_at=[1000 * n for n in range(5)],
        seconds_at=[(seconds or 0) + n for n in range(5)],
        returns_at=returns,
        start_s=2.5,
        threshold=475.0,
        budget_s=300.0,
        settings_from="a test",
    )


def test_the_table_is_whole_at_60_columns() -> None:
    rows = [row("cleanrl_style", seed, 110.25 + seed) for seed in range(10)]
    rows += [row("sb3", seed, 200.0 if seed < 4 else None) for seed in range(10)]
    text = table([(GOAL, ["cleanrl_style", "sb3"])], rows)
    assert "| cleanrl_style | 114 | 111 to 118 | 2.5 | 10/10 |" in text
    assert "| sb3 | > 300 | 200 to ? | 2.5 | 4/10 |" in text
    assert "- sb3: a test" in text
    assert max(len(line) for line in text.splitlines() if line.startswith("|")) <= 60


def test_the_command_trains_what_is_there_and_names_what_is_not(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "own_worker", lambda mapping, **_: Learner(lambda steps: 500))
    monkeypatch.setattr(registry, "is_built", lambda name: False)
    options = ["--goals", "cartpole-ppo", "--systems", "placerl,sbx", "--seeds", "2"]
    outcome = placerl("bench", "time-to-return", *options, "--results", str(tmp_path))
    assert outcome.status == 0, outcome.err
    assert "| 2/2 |" in outcome.out
    assert "- sbx: not run: needs its environment: placerl baselines sbx" in outcome.out
    again = placerl("bench", "time-to-return", *options, "--results", str(tmp_path), "--json")
    assert "The run holds every cell" in again.err
    assert again.out.count('"kind": "learning_curve"') == 4


@pytest.mark.parametrize(("option", "value"), [("--goals", "nothing"), ("--systems", "nothing")])
def test_a_wrong_option_is_refused(placerl: Placerl, tmp_path: Path, option: str, value: str) -> None:
    refused(placerl("bench", "time-to-return", option, value, "--results", str(tmp_path)), value)
