"""The page of seconds to a return: which run it shows, and that each system is in it with its source."""

from placerl.harness.report import seconds_markdown
from placerl.harness.store.reference import Reference
from placerl.harness.store.rows import LearningCurve
from placerl.harness.store.store import RunRecord
from tests.harness.cli.bench.test_time_to_return_bench import row
from tests.harness.report import sample


def committed(name: str, begun: str, *rows: LearningCurve) -> Reference:
    run = RunRecord(1, name, name, "r" * 40, "a-machine", begun, sample.MACHINE)
    return Reference(name, run, rows, tuple(f"cell {n}" for n in range(len(rows))))


def test_the_last_run_that_raced_is_shown_with_every_system() -> None:
    rows = [row("placerl", 0, 1.25), row("sb3", 0, None)]
    runs = [
        committed("first", "2026-01-01T00:00:00Z", row("placerl", 0, 9.0)),
        committed("last", "2026-01-03T00:00:00Z", *rows),
        committed("without", "2026-01-04T00:00:00Z"),
    ]
    found = seconds_markdown.last_races(runs)
    assert found is not None
    text = seconds_markdown.page(*found)
    assert "in the run `last`, begun 2026-01-03, on " in text
    assert "## cartpole-ppo: 475" in text
    assert "| placerl | 1.25 |  | 2.5 | 1/1 |" in text
    assert "| sb3 | > 300 |  | 2.5 | 0/1 |" in text
    assert text.count("- sb3: a test") == 1


def test_runs_without_races_have_no_page() -> None:
    assert seconds_markdown.last_races([committed("without", "2026-01-04T00:00:00Z")]) is None
