"""MAP's formulas for cycles: verdicts from made rows, and the rows of small simulations."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from tests.harness.old_form import details_of, replace

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import Outcome
from placerl.harness.papers.map import cycle_formulas
from placerl.harness.papers.map.cycle_formulas import LEARNER, REPLAY
from placerl.harness.plan.tiers import TIERS
from placerl.primitives.fpga.cycles.difference_table import PASSES
from placerl.primitives.fpga.cycles.learner import map_cycles
from placerl.primitives.sum_tree import fpga_backend
from tests.harness.papers.rows import measurement, verdict

KEYS = {REPLAY: "MAP-VI-A2-replay", LEARNER: "MAP-VI-A2-learner"}
DESIGNS = {
    REPLAY: {"call": "sample", "fanout": 2, "banks": 4},
    LEARNER: {"pipelines": 2, "neurons": [5, 8, 8, 1]},
}


def rows(part: str, cycles: dict[int, float], **sizes: object) -> Iterator[Row]:
    """Simulated cycles by batch size, where the formula gives 100 for an item."""
    for size, simulated in cycles.items():
        formula = 100.0 * size
        yield measurement(
            simulated,
            spread=0,
            suite="claim",
            primitive=part,
            backend="fpga",
            device="fpga",
            batch_size=size,
            quantity="cycles",
            unit="cycles",
            provenance=Provenance.SIMULATED,
            details={
                "experiment": "MAP-VI-A2",
                "formula_cycles": formula,
                "reasons": {"fill and drain": simulated - formula, "imbalance": 0.0},
                **(DESIGNS[part] | sizes),
            },
        )


@pytest.mark.parametrize("part", KEYS)
@pytest.mark.parametrize(
    ("cycles", "outcome"),
    [
        ({32: 3200, 2048: 204_800}, Outcome.REPRODUCED),
        ({32: 3350, 2048: 204_800}, Outcome.REPRODUCED),  # the formula is 4.5% below
        ({32: 3050, 2048: 204_800}, Outcome.REPRODUCED),  # 4.9% above
        ({32: 3400, 2048: 204_800}, Outcome.IN_KIND),  # 5.9% below, at the small batch alone
        ({2048: 204_800, 32: 3000}, Outcome.IN_KIND),  # 6.7% above
        ({32: 3200, 2048: 230_000}, Outcome.NOT_REPRODUCED),
        ({32: 3200, 2048: 180_000}, Outcome.NOT_REPRODUCED),
        ({32: 3200}, Outcome.NOT_RUN),  # one batch size shows no growth
        ({}, Outcome.NOT_RUN),
    ],
)
def test_a_formula_is_judged_by_its_errors(
    part: str, cycles: dict[int, float], outcome: Outcome, tmp_path: Path
) -> None:
    assert verdict(KEYS[part], tmp_path, *rows(part, cycles)).finding.outcome is outcome


@pytest.mark.parametrize("part", KEYS)
@pytest.mark.parametrize(
    ("waits", "outcome"), [(45_000, Outcome.NO_VERDICT), (30_000, Outcome.NOT_REPRODUCED)]
)
def test_what_a_crossbar_with_deeper_queues_could_avoid_refutes_nothing(
    part: str, waits: int, outcome: Outcome, tmp_path: Path
) -> None:
    """Of 250,000 cycles the formula gives 204,800: without 45,000 of waiting it is 0.1% off, without 30,000, 6.9%."""
    small, large = rows(part, {32: 3200, 2048: 250_000})
    reasons = {"imbalance": 45_200.0 - waits, "blocked lanes": float(waits)}
    large = replace(large, details=details_of(large) | {"reasons": reasons})
    found = verdict(KEYS[part], tmp_path, small, large).finding
    assert found.outcome is outcome
    assert f"{int(outcome is Outcome.NOT_REPRODUCED)} of these 1 are outside" in found.explanation


def test_each_part_has_rows_of_its_own(tmp_path: Path) -> None:
    other = rows(LEARNER, {32: 3200, 2048: 204_800})
    assert verdict(KEYS[REPLAY], tmp_path, *other).finding.outcome is Outcome.NOT_RUN


def test_one_wrong_design_refutes_and_is_named_with_its_reasons(tmp_path: Path) -> None:
    right = rows(REPLAY, {32: 3200, 2048: 204_800}, banks=1)
    wrong = rows(REPLAY, {32: 3200, 2048: 256_000}, banks=16)
    found = verdict(KEYS[REPLAY], tmp_path, *right, *wrong).finding
    assert found.outcome is Outcome.NOT_REPRODUCED
    assert "Within 5% in 3 of 4 cases, and at the largest batch in 1 of 2 designs" in found.explanation
    assert (
        "Farthest at the largest batch: sample, F = 2, S = 16, where of 256,000 cycles the formula leaves out fill and "
        "drain +51,200." in found.explanation
    )
    assert "1 of these 1 are outside the 5% too" in found.explanation
    (error,) = (
        n for n in found.ours if n.quantity == "sample, F = 2, S = 16, batch size 2048: error of the formula"
    )
    assert (error.value, error.unit) == (pytest.approx(-20.0), "%")


def test_the_quick_tier_simulates_nothing_of_it() -> None:
    assert [
        bool(cycle_formulas.ReplayCyclesFormula().cells(TIERS[name]))
        for name in ("quick", "standard", "full")
    ] == [
        False,
        True,
        True,
    ]


def test_without_tools_a_row_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "Amaranth")
    (row,) = cycle_formulas.simulated(lambda *_: None)
    assert (row.status, row.reason, row.value) == ("not_run", "needs Amaranth", None)


def test_every_row_comes_from_the_table_of_cycles_and_has_map_s_formula() -> None:
    rows = cycle_formulas.simulated(lambda *_: None)
    assert {row.status for row in rows} == {"ok"}
    assert len(rows) == (6 + 3) * 4 * 2 + 2 * 4
    passes = {(work.layers[0].inputs, *(layer.outputs for layer in work.layers)): work for work in PASSES}
    for row in rows:
        details = details_of(row)
        assert row.value == pytest.approx(details["formula_cycles"] + sum(details["reasons"].values()))
        if row.primitive == LEARNER:
            pipelines = details["pipelines"]
            formula = map_cycles(
                passes[tuple(details["neurons"])], samples=row.batch_size // pipelines, pipelines=pipelines
            )
        else:  # B / S, and for samples x F
            formula = (
                row.batch_size
                / details["banks"]
                * {"sample": details["fanout"], "update": 1}[details["call"]]
            )
        assert details["formula_cycles"] == formula
