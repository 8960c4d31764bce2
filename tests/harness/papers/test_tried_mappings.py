"""Which training stands for a device assignment."""

from pathlib import Path

from placerl.harness.core.row import Row
from placerl.harness.papers.tried_mappings import tried_mappings
from tests.harness.old_form import details_of, replace
from tests.harness.papers.rows import frame_of, mapped


def test_a_mapping_that_its_race_dropped_counts_only_where_no_other_is_left(tmp_path: Path) -> None:
    def dropped(row: Row, *among: str) -> Row:
        return replace(row, details=details_of(row) | {"clearly_slower_among": list(among)})

    devices = "here", "here and simulated"
    rows = [
        dropped(mapped("native-native-cpu", 90.0, 32), devices[1]),
        dropped(mapped("native-flat-cpu", 120.0, 32), *devices),  # few rounds: its median says little
        dropped(mapped("torch:cuda-cuda-cpu", 20.0, 32), *devices),
        dropped(mapped("torch:cuda-flat:cuda-cpu", 30.0, 32), *devices),  # slow devices: still an assignment
        mapped("torch:cuda-native-cpu", 70.0, 32),
        replace(
            mapped("torch:cuda-flat-cpu", 1.0, 32),
            value=None,
            low=None,
            high=None,
            status="failed",
            reason="no",
        ),
    ]
    ((_, found),) = tried_mappings(frame_of(tmp_path, *rows)).items()
    assert {str(choice): row.value for choice, row in found.items()} == {
        "cpu-cpu": 90.0,
        "cuda-cuda": 30.0,
        "cuda-cpu": 70.0,
    }
