"""What `placerl validate` prints, from made-up rows."""

from typing import Any

import pytest

from placerl.harness.cli import prediction_tables, validation_tables
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import Loop
from placerl.harness.validate.rows import HERE
from tests.harness.old_form import details_of, replace
from tests.harness.validate.achieved import NEVER_FUSED, choice, ran, regrets_of, training_row


def off(error: float, low: float, high: float, device: str) -> Row:
    """A prediction of the fused loop's own model that was so far off."""
    details = {
        "loop": "fused",
        "ran": "fused",
        "achieved_provenance": "measured",
        "terms_s": {"learner": 2e-3},
    }
    details |= {"error": error, "error_low": low, "error_high": high, "term_errors": {"learner": error}}
    quantity = "predicted_gradient_steps_per_s"
    modelled = Provenance.MODELLED
    return training_row(
        device, 1.0, backend="composed-loop", quantity=quantity, provenance=modelled, details=details
    )


def test_a_reason_is_given_where_noise_does_not_explain_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        off(0.2, 0.1, 0.3, "a"),
        off(-0.2, -0.3, -0.1, "b"),
        off(0.2, -0.1, 0.3, "c"),
        off(0.04, 0, 0.1, "d"),
    ]
    validation_tables._show_reasons(rows)
    lines = capsys.readouterr().out.replace("\n  ", " ").splitlines()
    explained = [line for line in lines if line.startswith("over 5%")]
    assert [line.split(", ")[2] for line in explained] == ["a", "b"]
    assert any(line.startswith("1 more may be over 5% or not") for line in lines)
    assert not any(", d, " in line for line in lines)


def test_regret_that_could_not_be_judged_is_counted_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    asked = replace(choice(NEVER_FUSED, HERE, loop=Loop.OVERLAPPED), backend="map-tpds23")
    (row,) = regrets_of(asked, ran(NEVER_FUSED, 100.0))
    validation_tables.show_strategies([row])
    validation_tables._show_line(row)
    printed = capsys.readouterr().out
    assert "Regret of the choices" in printed
    assert "regret of map-tpds23: not run: needs: native-flat-cpu" in printed.replace("\n", " ")


def test_what_slow_links_would_change_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    asked = replace(choice(NEVER_FUSED, HERE, loop=Loop.FUSED), backend="composed-loop")
    (lost,) = regrets_of(asked, ran(NEVER_FUSED, 100.0, loop=Loop.FUSED))
    validation_tables.show_strategies([lost])
    assert "latency" not in capsys.readouterr().out
    validation_tables.show_strategies([replace(lost, slow_link_us=1000.0, slow_chosen=False)])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "with 1,000 us a transfer, which PRL's authors list for another board, 0 of 1 choices would be the same"
        in said
    )


def test_predictions_and_regrets_of_our_own_model_are_summed_up_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = replace(choice(NEVER_FUSED, HERE, loop=Loop.FUSED), backend="composed-loop")
    (lost,) = regrets_of(asked, ran(NEVER_FUSED, 100.0, loop=Loop.FUSED))
    assert lost.status == "ok"
    missed = off(0.2, 0.1, 0.3, "a")
    missed = replace(missed, details={**details_of(missed), "chosen_among": [HERE]})
    validation_tables.show_strategies([missed, lost])
    printed = capsys.readouterr().out
    assert "Errors of the predictions" in printed
    assert "Regret of the choices" in printed
    assert "over 5%" in printed


def test_the_answer_is_short_narrow_and_names_the_papers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation_tables.out, "width", 60)
    asked = replace(choice(NEVER_FUSED, HERE, loop=Loop.OVERLAPPED), backend="pal21")
    (lost,) = regrets_of(asked, ran(NEVER_FUSED, 100.0, loop=Loop.OVERLAPPED))
    own = [off(error, error - 0.01, error + 0.01, str(error)) for error in (0.01, 0.04, -0.2)]
    theirs = replace(off(0.5, 0.4, 0.6, "a"), backend="pal21")
    validation_tables.show_answer([*own, theirs, lost])
    said, *table = capsys.readouterr().out.split("Errors and regrets, here")
    assert "this project's models are 4.0% off in the median; the papers' formulas 50% (PAL)" in " ".join(
        said.split()
    )
    lines = {words[0]: words[1:] for line in table[0].splitlines() if (words := line.split())}
    assert lines["composed-loop"] == ["4.0%", "2", "of", "3", "20.0%"]
    assert lines["pal21"] == ["50.0%", "0", "of", "1", "50.0%", "0.0%", "0.0%"]
    assert all(len(line) <= 60 for line in [*said.splitlines(), *table[0].splitlines()])


def test_errors_of_too_few_rounds_are_counted_and_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    judged, few = (
        replace(row, details={**details_of(row), "chosen_among": [HERE]})
        for row in (off(0.2, 0.1, 0.3, "a"), off(30.0, 29.0, 31.0, "b"))
    )
    few = replace(
        few, details={k: v for k, v in details_of(few).items() if k not in ("error_low", "error_high")}
    )
    for rows, said in (([judged, few], "1 of 2"), ([few], "0 of 1")):
        validation_tables.show_strategies(rows)
        printed = capsys.readouterr().out
        table = printed[: printed.index("may be over")]
        assert said in table
        assert "3000" not in table.replace(",", "")
        assert ("no verdict" in table) == (len(rows) == 1)


def test_what_is_too_noisy_is_marked_where_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    noise: dict[str, Any] = {"status": "too_noisy", "reason": "its interval is 40% wide"}
    details = {"loop": "fused", "terms_s": {}, "fusion": "", "slowest": "actors"}
    reached = training_row("a", 120.0, details=details, **noise)
    missed = replace(off(0.2, 0.1, 0.3, "a"), **noise)
    missed = replace(missed, details={**details_of(missed), "chosen_among": []})
    beyond = replace(reached, quantity="runtime_overhead", value=0.1)
    validation_tables.show_cell([reached, missed, beyond])
    printed = capsys.readouterr().out.replace("\n", " ")
    assert "120.0 (too noisy)" in " ".join(printed.split())
    assert "~+20.0%" in printed
    assert "10.0% (too noisy)" in printed
    prediction_tables.show_predictions(
        [replace(missed, details={**details_of(missed), "mapping": "a", "chosen": False})], "", True
    )
    assert " ~1.0 " in capsys.readouterr().out
