"""The shortest row, for tests of cells and plans."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.store.rows import OtherResult


def row(value: float) -> OtherResult:
    """A measurement of this value."""
    return OtherResult(
        suite="test",
        primitive="nothing",
        quantity="value",
        unit="1",
        provenance=Provenance.MEASURED,
        value=value,
    )
