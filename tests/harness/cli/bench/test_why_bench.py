"""The table of planted causes says how many were named, and how far predictions are off."""

from pathlib import Path

from placerl.harness.cli.bench.why_bench import SUITE, WhyResult, table
from placerl.harness.core.provenance import Provenance
from placerl.harness.why.planted import cases
from tests.harness.cli.command_line import Placerl, refused


def row(planted: str, named: list[str], predicted: float | None) -> WhyResult:
    return WhyResult(
        suite=SUITE, primitive=planted, quantity="gain", unit="ratio", provenance=Provenance.MEASURED, value=2.0,
        samples=(2.0,), script="dqn", planted=planted, named=tuple(named), predicted=predicted,
    )  # fmt: skip


def test_the_table_counts_what_was_named_and_what_was_predicted_well() -> None:
    rows = [row("float64", ["float64", "tiny batches"], 2.2), row("slow wrapper", ["float64"], None)]
    text = table(rows)
    assert "Named first: 1 of 2. Predicted within 15% of what the repair brought: 1 of 2." in text
    assert "| dqn | float64 | float64, tiny batches | 2.20x | 2.00x | +10% |" in text


def test_the_goal_is_one_of_all_scripts() -> None:
    rows = [row(one.cause, [one.cause], 2.0) for one in cases()]
    assert "Named first: 24 of 24 (goal: 22 of 24). Predicted within" in table(rows)
    assert "goal" not in table(rows[:-1])


def test_a_text_in_no_name_is_refused_and_the_last_table_stays(placerl: Placerl, tmp_path: Path) -> None:
    table_of = tmp_path / "table.md"
    table_of.write_text("the last one")
    outcome = placerl("bench", "why", "--only", "flaot64", "-o", str(tmp_path), "--results", str(tmp_path))
    refused(outcome, "--only: found 'flaot64'; allowed: a part of a case's name", "mean float64?")
    assert table_of.read_text() == "the last one"
