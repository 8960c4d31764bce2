"""What claims need measured: which experiments there are, and what they measure."""

from harness import claims
from harness.claims import experiments


def test_experiments_are_named_by_claims() -> None:
    assert set(experiments.EXPERIMENTS) <= {claim.key for claim in claims.claims()}


def test_an_experiment_measures_every_configuration() -> None:
    rows = experiments.layout(0.0, lambda *_: None)
    assert [(row.details["aligned"], row.details["null"]) for row in rows] == [
        (True, False),
        (True, True),
        (False, False),
        (False, True),
    ]
    assert {(row.suite, row.primitive) for row in rows} == {("claim", experiments.PRIMITIVE)}
    assert all(row.status != "failed" for row in rows), [row.reason for row in rows]
