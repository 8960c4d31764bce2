"""The shortest tier and row, for the tests of plans."""

from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.plan.tiers import Tier

TINY = Tier("tiny", ("cartpole-dqn",), (32,), profile_s=1, experiment_s=1, run_s=1, compare_s=1, seeds=2)


def row(value: float) -> Measurement:
    """A measurement of this value."""
    return Measurement(
        suite="test",
        primitive="nothing",
        quantity="value",
        unit="1",
        provenance=Provenance.MEASURED,
        value=value,
    )
