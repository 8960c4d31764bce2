"""MAP Table VII: throughput per watt."""

from pathlib import Path

import pytest

from placerl.harness.papers import Outcome
from placerl.harness.papers.map import table_7
from placerl.harness.papers.number import from_text
from tests.harness.papers.rows import trained, verdict


def test_throughput_per_watt_is_shown_where_a_run_read_the_counters(tmp_path: Path) -> None:
    row = trained(12.0, quantity="throughput_per_watt", unit="GPS/W")
    found = verdict("MAP-T7", tmp_path, row, trained(99.0)).finding
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, table_7.NEEDS_WATTS)
    gain, mine = found.ours
    printed_gain = from_text("MAP.power_efficiency_gain")[0].value
    assert gain.value == pytest.approx(printed_gain, rel=0.02)
    assert (mine.value, mine.unit, mine.rows) == (12.0, "GPS/W", (0,))
