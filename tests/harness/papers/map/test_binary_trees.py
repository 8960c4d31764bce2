"""Replay operations on trees of MAP's K: what is timed, by which cells, and which rows are times."""

from pathlib import Path

import pytest
import torch

from placerl.harness.core.progress import silent
from placerl.harness.mapping.absent_platforms import as_in_map
from placerl.harness.papers.map import binary_trees
from placerl.harness.papers.map.binary_trees import BATCH_SIZES, CALLS, CLOCK_MHZ
from placerl.harness.plan.gpu_claims import GPU
from placerl.harness.plan.tiers import TIERS
from placerl.harness.workloads import override
from tests.harness.papers.device_rows import tree
from tests.harness.papers.rows import frame_of


def test_every_operation_is_measured_on_one_thread_of_the_cpu(tmp_path: Path) -> None:
    small = override(as_in_map(binary_trees.WORKLOAD), "replay.capacity", 20_000, "a test")
    made = binary_trees.measured(0.0, silent, small)
    assert {row.status for row in made} <= {"ok", "too_noisy"}, [row.reason for row in made]
    assert {row.parameters["fanout"] for row in made} == {2}
    on_cpu = {(row.primitive, row.batch_size) for row in made if row.device == "cpu"}
    assert on_cpu == {(call, size) for call in CALLS for size in BATCH_SIZES}
    assert {row.backend for row in made if row.device == "cpu"} == {"native"}
    if torch.cuda.is_available():
        assert {row.device for row in made} == {"cpu", "cuda"}, "no OpenCL device stands in"
    frame = frame_of(tmp_path, *made)
    timed = binary_trees.times(frame, "sum_tree.sample")
    assert set(timed["batch_size"]) == set(BATCH_SIZES)
    assert set(timed["primitive"]) == {"sum_tree.sample"}


def test_the_tiers_that_measure_them_have_one_cell() -> None:
    cells = {tier.name: binary_trees.cells(tier) for tier in (*TIERS.values(), GPU)}
    assert {name: len(some) for name, some in cells.items()} == {
        "quick": 0,
        "standard": 1,
        "full": 1,
        "gpu": 1,
    }
    assert cells["gpu"][0].key == "claim/MAP-F12-trees"


@pytest.mark.parametrize("clock_mhz", [None, CLOCK_MHZ / 2])
def test_cycles_are_seconds_at_the_clock_that_they_state(clock_mhz: float | None, tmp_path: Path) -> None:
    """Rows state none themselves; a claim is judged at the assumed one and at another."""
    frame = frame_of(
        tmp_path, tree("fpga", "sum_tree.update", 32, 1e-3), tree("cpu", "sum_tree.update", 32, 1.0)
    )
    assert [given.get("clock_mhz") for given in binary_trees.with_clock(frame)["parameters"]] == [
        CLOCK_MHZ,
        None,
    ]
    if clock_mhz:
        frame = frame.assign(parameters=[{**given, "clock_mhz": clock_mhz} for given in frame["parameters"]])
    rows = binary_trees.times(frame, "sum_tree.update").set_index("kind")
    assert rows.loc["fpga", "value"] == pytest.approx(1e-3 * CLOCK_MHZ / (clock_mhz or CLOCK_MHZ))
    assert rows.loc["cpu", "value"] == 1.0
    assert set(rows["unit"]) == {"s"}
    assert binary_trees.times(frame, "sum_tree.sample").empty
