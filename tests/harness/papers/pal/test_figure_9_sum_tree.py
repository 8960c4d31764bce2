"""The sum tree over fanouts and layouts: which configurations are measured."""

from typing import Any

import numpy as np
import pytest

from harness.core.progress import silent
from harness.papers.pal import figure_9_sum_tree
from harness.papers.tree_layouts import TreeLayout


class Asked(Exception):
    """Ends an experiment where it would begin to measure."""


def test_an_experiment_measures_every_configuration() -> None:
    rows = figure_9_sum_tree.layout(0.0, silent)
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

    monkeypatch.setattr(figure_9_sum_tree, "measure", measure)
    with pytest.raises(Asked):
        figure_9_sum_tree.fanout(7.0, silent)
    cases, protocol = asked
    assert [case.name for case in cases] == [
        f"{capacity} leaves, K={2**power}{null}"
        for capacity in (1000, 10_000, 100_000)
        for power in range(1, 9)
        for null in ("", " (null)")
    ]
    assert (protocol.budget_s, protocol.warm_up_s, protocol.threads) == (7.0, 5e-3, 1)


def test_a_tree_that_is_not_aligned_says_so() -> None:
    assert figure_9_sum_tree._name(TreeLayout(10, 4, aligned=False)) == "10 leaves, K=4, not aligned"


def test_a_call_draws_from_all_leaves() -> None:
    case = figure_9_sum_tree.case(TreeLayout(1, 2), "one leaf")
    _, indices, updated = case.inputs(case.setup(), np.random.default_rng(0))
    assert (indices.tolist(), updated.shape) == ([0] * 64, (64,))
