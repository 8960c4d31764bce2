"""What claims need measured: which experiments there are, and what they measure."""

from harness import papers
from harness.papers import sum_tree


def test_experiments_are_named_by_claims() -> None:
    assert set(sum_tree.EXPERIMENTS) <= {claim.key for claim in papers.claims()}


def test_an_experiment_measures_every_configuration() -> None:
    rows = sum_tree.layout(0.0, lambda *_: None)
    assert [(row.details["aligned"], row.details["null"]) for row in rows] == [
        (True, False),
        (True, True),
        (False, False),
        (False, True),
    ]
    assert {(row.suite, row.primitive) for row in rows} == {("claim", sum_tree.PRIMITIVE)}
    assert all(row.status != "failed" for row in rows), [row.reason for row in rows]
