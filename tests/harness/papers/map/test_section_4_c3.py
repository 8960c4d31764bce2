"""MAP IV-C3: the prefix sum index of small batches on a GPU compared with one thread of the CPU."""

from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from tests.harness.old_form import replace
from tests.harness.papers.device_rows import on, tree
from tests.harness.papers.rows import TOO_FEW, verdict


def index_times(gpu_over_cpu: dict[int, float], **more: Any) -> list[Row]:
    """The prefix sum index of a batch on MAP's tree on the GPU and natively, for 1 ms there."""
    rows = []
    for size, times in gpu_over_cpu.items():
        rows.append(tree("cpu", "sum_tree.sample", size, 1e-3, **more))
        rows.append(tree("cuda", "sum_tree.sample", size, 1e-3 * times, **more))
    return rows


@pytest.mark.parametrize(
    ("gpu_over_cpu", "outcome"),
    [
        ({32: 3.0, 2048: 0.1}, Outcome.CONSISTENT),
        ({32: 3.0, 2048: 1.2}, Outcome.CONSISTENT),  # nearer is enough
        ({32: 3.0, 2048: 3.5}, Outcome.NO_VERDICT),  # no advantage comes in sight
        ({256: 3.0, 2048: 0.1}, Outcome.CONSISTENT),
        ({256: 26.0}, Outcome.NO_VERDICT),  # one size does not say what is small
        ({32: 1.1}, Outcome.NO_VERDICT),
        ({32: 0.9}, Outcome.NOT_REPRODUCED),
        ({33: 0.9}, Outcome.NO_VERDICT),  # MAP's batches begin at 32
        ({33: 0.9, 2048: 0.1}, Outcome.NO_VERDICT),
        ({32: 0.5, 2048: 3.0}, Outcome.NOT_REPRODUCED),  # the smallest batch counts
        ({32: 1.0}, Outcome.NO_VERDICT),
        ({}, Outcome.NOT_RUN),
    ],
)
def test_at_the_smallest_batch_the_gpu_is_slower_than_one_thread(
    gpu_over_cpu: dict[int, float], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("MAP-IV-C3", tmp_path, *index_times(gpu_over_cpu)).finding
    assert found.outcome is outcome
    assert [(n.quantity, n.value) for n in found.ours] == [
        (f"batch size {size}: time on the GPU over one CPU thread", pytest.approx(times))
        for size, times in gpu_over_cpu.items()
    ]
    if gpu_over_cpu:
        assert f"Batch sizes {min(gpu_over_cpu)} to {max(gpu_over_cpu)}, copies included" in found.explanation
    assert not found.needs or not found.explanation, "no device stands in"


def test_an_opencl_device_is_listed_and_decides_nothing(tmp_path: Path) -> None:
    rows = [replace(row, device=row.device.replace("cuda", "opencl")) for row in index_times({32: 3.0})]
    found = verdict("MAP-IV-C3", tmp_path, *rows).finding
    assert found.outcome is Outcome.NOT_RUN
    assert [(n.quantity, n.value) for n in found.ours] == [
        ("batch size 32: time on the OpenCL device over one CPU thread", pytest.approx(3.0))
    ]
    assert "decides nothing about a GPU" in found.explanation


def test_a_noisy_index_decides_nothing(tmp_path: Path) -> None:
    rows = index_times({32: 3.0, 2048: 0.1}, **TOO_FEW)
    assert verdict("MAP-IV-C3", tmp_path, *rows).finding.outcome is Outcome.NO_VERDICT


def test_a_wide_interval_that_leaves_the_limit_out_decides(tmp_path: Path) -> None:
    """Noise hides a difference only where it is larger than the difference."""
    wide = {"status": "too_noisy", "reason": "the interval is 149% of the median"}

    def outcome(ratio: float, folder: str) -> Outcome:
        rows = [
            replace(row, low=row.value * 0.5, high=row.value * 2.0, **wide)
            for row in index_times({32: ratio, 2048: 1 / 29.0})
        ]
        return verdict("MAP-IV-C3", tmp_path / folder, *rows).finding.outcome

    assert outcome(29.0, "far") is Outcome.CONSISTENT
    assert outcome(1 / 29.0, "refuted") is Outcome.NOT_REPRODUCED
    assert outcome(1.5, "near") is Outcome.NO_VERDICT


def test_a_wider_tree_decides_nothing(tmp_path: Path) -> None:
    """MAP's trees have K = 2; a profile is of Hopper's, which is wider."""
    rows = [
        row
        for kind, time_s in (("cpu", 1e-3), ("cuda", 1e-6))
        for size in (32, 16384)
        for row in (
            tree(kind, "sum_tree.sample", size, time_s, fanout=16),
            on(kind, "sum_tree.sample", size, time_s),
        )
    ]
    assert verdict("MAP-IV-C3", tmp_path, *rows).finding.outcome is Outcome.NOT_RUN
