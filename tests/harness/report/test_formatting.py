"""Numbers as the page shows them."""

from dataclasses import replace
from pathlib import Path

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import Finding, Outcome
from placerl.harness.papers.number import Number, bounded_speedup
from placerl.harness.report import export, formatting, site
from tests.harness.papers.rows import verdict


def test_a_suspect_number_is_marked_and_says_why() -> None:
    speedup = Number("gain", 2.5, "ratio", Provenance.MEASURED, low=2.4, high=2.6)
    assert "suspect" not in formatting.show(speedup)
    shown = formatting.show(bounded_speedup(speedup, 2))
    assert (
        '<span class="badge suspect" title="2.4 times or more as fast with 2 times the resources">' in shown
    )


def test_a_verdict_s_table_says_why_a_number_is_suspect(tmp_path: Path) -> None:
    odd = bounded_speedup(Number("gain", 2.157, "ratio", Provenance.MEASURED), 2)
    finding = Finding(Outcome.NO_VERDICT, (odd, odd))
    table = export._verdicts([replace(verdict("PAL-F10", tmp_path), finding=finding)])
    reasons = table.loc[table["suspect"] != "", "suspect"].tolist()
    assert reasons == ["2.157 times or more as fast with 2 times the resources"] * 2
    assert set(table["verdict"]) == {"no verdict"}


def test_every_outcome_has_a_badge_of_its_own() -> None:
    style = (Path(site.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    known = {outcome for outcome in Outcome if f".badge.{outcome.replace(' ', '-')}" in style}
    assert known == set(Outcome) - {Outcome.NOT_RUN}, "what was not run has the plain badge"
