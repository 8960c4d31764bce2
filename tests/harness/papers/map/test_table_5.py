"""MAP Table V on modelled times: the rows that its cells and gains become."""

from dataclasses import asdict

import pytest

from harness.mapping import absent_platforms
from harness.papers.map import table_5


def test_table_5_is_modelled_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [
        absent_platforms.Cell("pong-dqn", 8, published, ours, 1e-3, 2e-3, "")
        for published, ours in (("G-C-G", "G-C-G"), ("F-C-F", "G-C-F"), ("C-C-C", "G-C-G"))
    ]
    gain = absent_platforms.Gain("pong-dqn", 8, "worst", "B = 8", "G-C-G", "C-C-C", 7.5, True)
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
    assert [row.details for row in rows] == [
        {"experiment": "optimal mappings"} | asdict(one) for one in cells
    ]
    assert (last.quantity, last.unit, last.value) == ("gain", "ratio", 7.5)
    assert last.details == {"experiment": "gains over other mappings"} | asdict(gain)
