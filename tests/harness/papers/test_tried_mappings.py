"""Which training stands for a device assignment."""

from pathlib import Path

from placerl.harness.core.row import Row
from placerl.harness.papers.tried_mappings import of_trainings, tried_mappings
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


def test_a_table_has_the_fastest_training_with_a_part_on_each_device(tmp_path: Path) -> None:
    rows = [
        mapped("native-native-cpu", 90.0, 32),
        mapped("torch:cuda-native-cpu", 70.0, 32),
        mapped("native-cuda-cpu", 95.0, 32),
        replace(mapped("torch:cuda-cuda-cpu", 500.0, 32), workload="hopper-ddpg"),
    ]
    tried = tried_mappings(frame_of(tmp_path, *rows))
    expected = {
        "learner": {"cpu": ("native-cuda-cpu", 95.0), "cuda": ("torch:cuda-native-cpu", 70.0)},
        "replay": {"cpu": ("native-native-cpu", 90.0), "cuda": ("native-cuda-cpu", 95.0)},
    }
    for part, fastest in expected.items():
        table = of_trainings(tried, "cartpole-dqn", part, (32, 512), {})
        found = {kind: by_size[32] for kind, by_size in table.ours.items()}
        assert {kind: (one.how, one.number.value) for kind, (one,) in found.items()} == fastest
        again = "`placerl validate --only cartpole-dqn/32 --tier standard`, the others alike."
        assert list(table.gaps())[2] == f"FPGA not run at 32, 512: {again}"
