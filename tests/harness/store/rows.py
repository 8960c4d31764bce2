"""The shortest row, for tests of cells and plans."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Measurement


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
