"""MAP Table V on modelled times: the rows that its cells and gains become, and their verdicts."""

from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import absent_platforms
from placerl.harness.papers import Outcome
from placerl.harness.papers.map import table_5
from tests.harness.old_form import details_of, replace
from tests.harness.papers.rows import measurement, verdict


def test_table_5_is_modelled_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [
        absent_platforms.MapTable5Cell("pong-dqn", 8, published, ours, 1e-3, 2e-3, 16, ours)
        for published, ours in (("G-C-G", "G-C-G"), ("F-C-F", "G-C-F"), ("C-C-C", "G-C-G"))
    ]
    gain = absent_platforms.MapTable5Gain("pong-dqn", 8, "worst", "B = 8", "G-C-G", "C-C-C", 7.5, True)
    monkeypatch.setattr(absent_platforms, "map_table_5", lambda: iter(cells))
    monkeypatch.setattr(absent_platforms, "map_table_5_gains", lambda: iter([gain]))
    seen: list[tuple[float, float, str]] = []
    *rows, last = table_5.optimal_mappings(lambda *report: seen.append(report))
    assert seen == [(done, 11, "Table V") for done in range(3)], "the table has 11 cells"
    assert [(row.quantity, row.value) for row in rows] == [
        ("as_printed", 1.0),
        ("as_printed", 0.0),
        ("as_printed", 0.0),
    ]
    assert [details_of(row) for row in rows] == [
        {"experiment": "optimal mappings"} | asdict(one) for one in cells
    ]
    assert (last.quantity, last.unit, last.value) == ("gain", "ratio", 7.5)
    assert details_of(last) == {"experiment": "gains over other mappings"} | asdict(gain)


PRINTED = {("cartpole-ddpg", 32): "F-F-F", ("hopper-ddpg", 32): "F-F-F", ("hopper-ddpg", 256): "G-C-G"}


def cell(place: tuple[str, int], ours: str) -> Row:
    return measurement(
        float(ours == PRINTED[place]),
        suite="claim",
        workload=place[0],
        batch_size=place[1],
        primitive="mapping",
        backend="map-tpds23",
        quantity="as_printed",
        unit="1",
        provenance=Provenance.MODELLED,
        details={
            "experiment": table_5.OPTIMAL,
            "published": PRINTED[place],
            "ours": ours,
            "reason": "because" * (ours != PRINTED[place]),
        },
    )


def ran(mapping: str, gps: float, loop: str = "fused", **fields: Any) -> Row:
    base = {
        "suite": "validation",
        "workload": "hopper-ddpg",
        "primitive": "training",
        "backend": "placerl",
        "device": mapping,
        "batch_size": 256,
        "quantity": "gradient_steps_per_s",
        "unit": "1/s",
        "details": {"mapping": mapping, "loop": loop},
    }
    return measurement(gps, **(base | fields))


@pytest.mark.parametrize(("hopper", "same"), [("F-F-F", 3), ("G-C-G", 2)])
def test_the_mappings_with_the_explored_sub_trees_are_counted(hopper: str, same: int, tmp_path: Path) -> None:
    rows = [cell(place, printed) for place, printed in PRINTED.items()]
    again = dict(PRINTED) | {("hopper-ddpg", 32): hopper}
    explored = [
        replace(row, details=details_of(row) | {"banks": banks, "with_banks": mapping})
        for row, banks, mapping in zip(rows, (16, 16, 8), again.values(), strict=True)
    ]
    said = verdict("MAP-T5", tmp_path / "explored", *explored).finding.explanation
    assert (
        f"With the S = 8 or 16 that this project's exploration chooses in place of MAP's 32, {same} of the 3"
        in said
    )
    older = verdict("MAP-T5", tmp_path / "older", *rows).finding.explanation
    assert "exploration chooses" not in older


def test_table_5_is_not_run_without_its_cells(tmp_path: Path) -> None:
    assert verdict("MAP-T5", tmp_path, ran("native-native-cpu", 10)).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [
        (PRINTED, Outcome.CONSISTENT),
        (PRINTED | {("hopper-ddpg", 256): "G-F-G"}, Outcome.NO_VERDICT),
        (PRINTED | {("hopper-ddpg", 256): "F-F-F"}, Outcome.NO_VERDICT),
    ],
)
def test_table_5_counts_what_comes_out_and_explains_what_does_not(
    ours: dict[tuple[str, int], str], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("MAP-T5", tmp_path, *(cell(place, mapping) for place, mapping in ours.items()))
    agree = sum(PRINTED[place] == mapping for place, mapping in ours.items())
    assert (found.finding.outcome, found.finding.ours[0].value) == (outcome, agree)
    said = f"On MAP's platform, modelled, {agree} of 3 mappings are as printed (learner, replay management, storage; "
    assert found.finding.explanation.startswith(said)
    assert (" Others: hopper-ddpg, batch size 256: " in found.finding.explanation) == (agree < 3)
    assert ("because" in found.finding.explanation) == (agree < 3)
    assert "9.2 us, was fitted to MAP's own 41x (VII-C) at an assumed 285 MHz" in found.finding.explanation


def test_gains_of_this_machine_s_mappings_are_no_part_of_table_5(tmp_path: Path) -> None:
    rows = [cell(place, mapping) for place, mapping in PRINTED.items()]
    rows += [ran("native-native-cpu", 60), ran("torch-flat-cpu", 20)]
    found = verdict("MAP-T5", tmp_path, *rows)
    assert (len(found.finding.ours), found.rows) == (1, (0, 1, 2))
    assert [number.value for number in found.claim.published] == [11]


@cache
def modelled() -> tuple[Row, ...]:
    return tuple(table_5.optimal_mappings(lambda *_: None))


def test_the_experiment_is_table_5_as_algorithm_3_makes_it() -> None:
    every = modelled()
    assert {row.provenance for row in every} == {Provenance.MODELLED}
    rows = [row for row in every if row.quantity == "as_printed"]
    assert len(rows) == 11
    missed = {(row.workload, row.batch_size): details_of(row)["reason"] for row in rows if not row.value}
    assert len(missed) == 2
    assert missed["hopper-ddpg", 16384].startswith("replay management C")
    assert missed["pong-dqn", 256].startswith("storage G, printed C")


def gain(place: str, modelled: float, in_place: bool = True) -> Row:
    """Of CartPole, batch size 32, where F-C-F is the second best (12x) and G-G-G the worst (997.3x)."""
    other = {"second best": "F-C-F", "worst": "G-G-G"}[place]
    column = "CartPole, batch size 32"
    details: dict[str, Any] = {
        "place": place,
        "column": column,
        "optimal": "F-F-F",
        "other": other,
        "in_place": in_place,
    }
    details["experiment"] = table_5.GAINS
    fields = {"quantity": "gain", "unit": "ratio", "details": details, "value": modelled}
    return replace(cell(("cartpole-ddpg", 32), "F-F-F"), low=None, high=None, **fields)


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ((), Outcome.NOT_RUN),
        ((gain("second best", 13.0), gain("worst", 900.0)), Outcome.CONSISTENT),
        ((gain("second best", 14.3), gain("worst", 1190.0)), Outcome.CONSISTENT),  # within a fifth of both
        ((gain("second best", 14.5), gain("worst", 900.0)), Outcome.NO_VERDICT),
        ((gain("second best", 13.0), gain("worst", 1200.0)), Outcome.NO_VERDICT),
        ((gain("second best", 13.0), gain("worst", 2000.0)), Outcome.NO_VERDICT),
        ((gain("second best", 13.0, in_place=False), gain("worst", 900.0)), Outcome.NO_VERDICT),
        ((gain("second best", 0.9), gain("worst", 900.0)), Outcome.NO_VERDICT),
    ],
)
def test_gains_of_table_5_are_judged_by_their_order_and_their_size(
    rows: tuple[Row, ...], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("MAP-T5-gains", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert len(found.rows) == len(rows)


def test_the_gains_of_table_5_are_modelled_beside_every_published_one(tmp_path: Path) -> None:
    found = verdict("MAP-T5-gains", tmp_path, *modelled())
    assert len(found.claim.published) == len(found.finding.ours) == 12
    assert found.provenance == "modelled"
    gains = {number.quantity: number.value for number in found.finding.ours}
    # 71 launches of 9.2 us, two of them the tree's and one of the annealed step size, over 584 cycles of the FPGA at
    # 285 MHz.
    assert gains["CartPole, batch size 32: F-F-F over G-G-G, worst"] == pytest.approx(318.8, abs=0.1)
    assert found.finding.outcome is Outcome.NO_VERDICT
    assert "the model does not refute the table" in found.finding.explanation
    assert "CartPole, batch size 256: F-F-F over F-G-F, second best" in found.finding.explanation
