"""What claims need measured: which experiments there are, and what they measure."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from harness import papers
from harness.core.progress import silent
from harness.mapping import absent_platforms
from harness.measure import statistics
from harness.papers import sum_tree
from harness.papers.pal.layouts import TreeLayout


class Asked(Exception):
    """Ends an experiment where it would begin to measure."""


def test_experiments_are_named_by_claims() -> None:
    assert set(sum_tree.EXPERIMENTS) <= {claim.key for claim in papers.claims()}


def test_an_experiment_measures_every_configuration() -> None:
    rows = sum_tree.layout(0.0, silent)
    assert [(row.details["aligned"], row.details["null"]) for row in rows] == [
        (True, False),
        (True, True),
        (False, False),
        (False, True),
    ]
    assert {(row.suite, row.primitive, row.batch_size) for row in rows} == {
        ("claim", "sum_tree.sample_and_update", 64)
    }
    details = [(row.details["experiment"], row.details["threads"], row.details["capacity"]) for row in rows]
    assert set(details) == {("layout", 1, 1_000_000)}
    assert {row.details["fanout"] for row in rows} == {16}
    assert all(row.status != "failed" for row in rows), [row.reason for row in rows]


def test_fanouts_are_those_of_the_paper_each_next_to_its_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """PAL VI-D: every power of two from 2 to 256, over three buffers."""
    asked: list[Any] = []

    def measure(*arguments: object, **_: object) -> None:
        asked.extend(arguments)
        raise Asked

    monkeypatch.setattr(sum_tree, "measure", measure)
    with pytest.raises(Asked):
        sum_tree.fanout(7.0, silent)
    cases, protocol = asked
    assert [case.name for case in cases] == [
        f"{capacity} leaves, K={2**power}{null}"
        for capacity in (1000, 10_000, 100_000)
        for power in range(1, 9)
        for null in ("", " (null)")
    ]
    assert (protocol.budget_s, protocol.warm_up_s, protocol.threads) == (7.0, 5e-3, 1)


def test_a_tree_that_is_not_aligned_says_so() -> None:
    assert sum_tree._name(TreeLayout(10, 4, aligned=False)) == "10 leaves, K=4, not aligned"


def test_a_call_draws_from_all_leaves() -> None:
    case = sum_tree.case(TreeLayout(1, 2), "one leaf")
    _, indices, updated = case.inputs(case.setup(), np.random.default_rng(0))
    assert (indices.tolist(), updated.shape) == ([0] * 64, (64,))


@pytest.mark.parametrize(
    ("budget_s", "rounds"),
    [(59.9, statistics.FEWEST_PAIRS), (60.0, statistics.PAIRS), (600.0, statistics.PAIRS)],
)
def test_threads_take_whole_rounds_and_more_of_them_in_a_minute(
    budget_s: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(sum_tree.threaded_replay, "measure", lambda *arguments: asked.append(arguments) or [])
    assert sum_tree.locks(budget_s, silent) == []
    assert asked == [((64, 1024), rounds, budget_s, silent)]


def test_table_5_is_modelled_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [
        absent_platforms.Cell("pong-dqn", 8, published, ours, 1e-3, 2e-3, "")
        for published, ours in (("G-C-G", "G-C-G"), ("F-C-F", "G-C-F"), ("C-C-C", "G-C-G"))
    ]
    gain = absent_platforms.Gain("pong-dqn", 8, "worst", "B = 8", "G-C-G", "C-C-C", 7.5, True)
    monkeypatch.setattr(absent_platforms, "map_table_5", lambda: iter(cells))
    monkeypatch.setattr(absent_platforms, "map_table_5_gains", lambda: iter([gain]))
    seen: list[tuple[float, float, str]] = []
    *rows, last = sum_tree.optimal_mappings(0.0, lambda *report: seen.append(report))
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
