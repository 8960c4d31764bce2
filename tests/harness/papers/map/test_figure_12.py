"""MAP Fig. 12: verdicts on replay operations over the batch size, and the figure in its own axes."""

from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.map import figure_12
from tests.harness.old_form import replace
from tests.harness.papers.device_rows import on, replay, tree
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import TOO_FEW, claim_of, frame_of, verdict


def test_both_calls_have_a_panel(tmp_path: Path) -> None:
    rows = [
        tree(kind, call, size, 1e-5)
        for call in figure_12.CALLS
        for size in (32, 256, 2048)
        for kind in ("cpu", "cuda")
    ]
    figure = figure_12.GpuTimesOverBatch().draw(frame_of(tmp_path, *rows))
    assert points(figure) == {"CPU": 6, "GPU": 6}
    assert figure is not None
    assert len(figure.axes) == 2


def at_one_clock(key: str, folder: Path, rows: list[Row]) -> Outcome:
    """The outcome at the assumed clock alone."""
    return claim_of(key).judge(frame_of(folder, *rows)).outcome


@pytest.mark.parametrize(
    ("gain", "outcome"),
    [(90.0, Outcome.CONSISTENT), (3.0, Outcome.CONSISTENT), (0.9, Outcome.NOT_REPRODUCED)],
)
def test_the_order_is_judged_at_both_clocks(gain: float, outcome: Outcome, tmp_path: Path) -> None:
    """At 64.5 MHz the FPGA is 4.4 times as slow as at 285 MHz."""
    rows = replay("sum_tree.update", {32: gain, 4096: gain})
    found = verdict("MAP-F12-update", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert [number.quantity for number in found.ours[:2]] == [
        "batch size 32: FPGA over GPU, at 285 MHz",
        "batch size 32: FPGA over GPU, at 64.5 MHz",
    ]
    assert ("reaches on an ECP5, not reproduced." in found.explanation) == (gain < 90)


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ({32: 40, 512: 2, 16384: 0.25}, Outcome.CONSISTENT),
        ({32: 40, 4096: 0.25}, Outcome.CONSISTENT),
        ({32: 0.9, 512: 2, 16384: 0.25}, Outcome.NOT_REPRODUCED),  # the GPU is faster at the smallest batch
        ({32: 1.005, 16384: 0.25}, Outcome.NO_VERDICT),
        ({32: 40, 512: 30, 16384: 20}, Outcome.NO_VERDICT),  # the GPU's times hold copies
        ({32: 40, 512: 30, 4096: 20}, Outcome.NO_VERDICT),  # MAP's order may turn above
        ({32: 40, 16384: 0.25, 65536: 20}, Outcome.CONSISTENT),  # MAP says nothing of larger batches
        ({32: 40, 512: 2, 16384: 0.995}, Outcome.NO_VERDICT),  # the interval holds 1
        ({32: 40, 512: 0.25}, Outcome.CONSISTENT),
        ({32: 40, 511: 0.25}, Outcome.NOT_RUN),
        ({33: 40, 16384: 0.25}, Outcome.NOT_RUN),
        ({32: 40}, Outcome.NOT_RUN),
    ],
)
def test_the_prefix_sum_index_crosses_over(gains: dict[int, float], outcome: Outcome, tmp_path: Path) -> None:
    assert at_one_clock("MAP-F12-sampling", tmp_path, replay("sum_tree.sample", gains)) is outcome


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ({32: 90, 16384: 12}, Outcome.CONSISTENT),
        ({32: 90, 4096: 3}, Outcome.CONSISTENT),
        ({32: 90, 4096: 0.9}, Outcome.NOT_REPRODUCED),
        ({32: 90, 256: 0.9, 16384: 12}, Outcome.NOT_REPRODUCED),
        ({32: 90, 16384: 1.005}, Outcome.NO_VERDICT),
        ({32: 90, 256: 12}, Outcome.NOT_RUN),  # small batches alone
        ({256: 12}, Outcome.NOT_RUN),
    ],
)
def test_the_update_is_always_faster_on_the_fpga(
    gains: dict[int, float], outcome: Outcome, tmp_path: Path
) -> None:
    assert at_one_clock("MAP-F12-update", tmp_path, replay("sum_tree.update", gains)) is outcome


@pytest.mark.parametrize("key", ["MAP-F12-sampling", "MAP-F12-update"])
@pytest.mark.parametrize(
    ("sizes", "needs"),
    [
        ((32, 256), "at least 512 (found: 32, 256)"),
        ((64, 16384), "at most 32 (found: 64, 16384)"),
        ((256,), "at most 32 and one of at least 512 (found: 256)"),
    ],
)
def test_what_lacks_of_small_and_large_batches_is_named(
    key: str, sizes: tuple[int, ...], needs: str, tmp_path: Path
) -> None:
    primitive = f"sum_tree.{'sample' if key.endswith('sampling') else 'update'}"
    found = verdict(key, tmp_path, *replay(primitive, dict.fromkeys(sizes, 20.0))).finding
    assert found.needs == f"trees of MAP's K = 2 on GPU and FPGA at a batch size of {needs}"
    assert [number.value for number in found.ours] == pytest.approx([20.0] * len(sizes))


@pytest.mark.parametrize("key", ["MAP-F12-sampling", "MAP-F12-update"])
def test_noise_on_the_gpu_carries_no_verdict_on_the_replay(key: str, tmp_path: Path) -> None:
    primitive = f"sum_tree.{'sample' if key.endswith('sampling') else 'update'}"
    rows = replay(primitive, {32: 90, 16384: 0.1})
    noisy = [replace(row, **TOO_FEW) if row.device == "cuda" else row for row in rows]
    assert verdict(key, tmp_path / "gpu", *noisy).finding.outcome is Outcome.NO_VERDICT
    apart = [row for row in rows if (row.device, row.batch_size) not in (("cuda", 32), ("fpga", 16384))]
    found = verdict(key, tmp_path / "apart", *apart)
    assert (
        found.needs
        == "trees of MAP's K = 2 on GPU and FPGA at a batch size of at most 32 and one of at least 512 (found: none)"
    )
    assert len(found.finding.ours) == 2, "the times, where no gain is known"
    assert verdict(key, tmp_path / "none", *rows[1::2]).needs == figure_12.NEEDS["cuda"]


@pytest.mark.parametrize(
    ("size", "sample", "update", "outcome"),
    [
        (16384, 1.1, 512, Outcome.CONSISTENT),
        (512, 1.1, 16, Outcome.CONSISTENT),
        (16384, 64, 512, Outcome.NOT_REPRODUCED),
        (512, 3, 16, Outcome.NOT_REPRODUCED),  # the index grows, already from 32 to 512
        (16384, 1.1, 1.1, Outcome.NO_VERDICT),  # copies are a constant part, which hides the growth
        (2048, 1.1, 1.1, Outcome.NO_VERDICT),
        (16384, 2, 512, Outcome.NO_VERDICT),  # twice as long: the interval holds the limit
        (16384, 1.1, 2.2, Outcome.NO_VERDICT),
        (511, 1.1, 16, Outcome.NOT_RUN),
    ],
)
def test_the_gpu_is_bound_by_launches_for_one_operation_alone(
    size: int, sample: float, update: float, outcome: Outcome, tmp_path: Path
) -> None:
    """From batch size 32 to `size`, the index takes so many times as long, and the update."""
    rows = [
        tree("cuda", f"sum_tree.{call}", at, 1e-5 * factor)
        for call, grown in (("sample", sample), ("update", update))
        for at, factor in ((32, 1.0), (size, grown))
    ]
    assert verdict("MAP-F12-GPU", tmp_path, *rows).finding.outcome is outcome


def test_the_gpu_s_operations_are_compared_over_the_same_batch_sizes(tmp_path: Path) -> None:
    rows = replay("sum_tree.sample", {32: 64, 2048: 1.1}) + replay("sum_tree.update", {32: 2, 16384: 2})
    found = verdict("MAP-F12-GPU", tmp_path / "apart", *rows).finding
    assert (
        found.needs == "trees of MAP's K = 2 on the CUDA device at a batch size of at least 512 (found: 32)"
    )
    rows += replay("sum_tree.update", {2048: 2, 65536: 2}) + replay("sum_tree.sample", {65536: 64})
    found = verdict("MAP-F12-GPU", tmp_path / "shared", *rows).finding
    assert [number.quantity for number in found.ours[:2]] == [
        f"{call}: batch size 2048 over 32" for call in ("prefix sum index", "priority update")
    ]


def test_noise_carries_no_verdict_on_the_gpu_s_tree(tmp_path: Path) -> None:
    rows = replay("sum_tree.sample", {32: 64, 2048: 1.1}) + replay("sum_tree.update", {32: 2, 2048: 2})
    noisy = [replace(row, **TOO_FEW) if row.device == "cuda" else row for row in rows]
    assert verdict("MAP-F12-GPU", tmp_path / "gpu", *noisy).finding.outcome is Outcome.NO_VERDICT
    noisy = [row if row.device == "cuda" else replace(row, **TOO_FEW) for row in rows]
    assert verdict("MAP-F12-GPU", tmp_path / "fpga", *noisy).finding.outcome is Outcome.CONSISTENT


@pytest.mark.parametrize("key", ["MAP-F12-sampling", "MAP-F12-GPU", "MAP-F12-update"])
def test_trees_of_another_fanout_decide_nothing(key: str, tmp_path: Path) -> None:
    """On MAP's, of K = 2, an update adds to more levels; a profile is of Hopper's tree, which is wider."""
    rows = [
        row
        for kind in ("cpu", "cuda", "fpga")
        for call in figure_12.CALLS
        for size in (32, 16384)
        for row in (tree(kind, call, size, 1e-5, fanout=16), on(kind, call, size, 1e-5))
    ]
    found = claim_of(key).evaluate(frame_of(tmp_path, *rows)).finding
    assert (found.outcome, found.ours) == (Outcome.NOT_RUN, ())


def test_the_table_of_devices_has_the_trees_of_map_s_fanout(tmp_path: Path) -> None:
    rows = [*replay("sum_tree.sample", {32: 2.0}), tree("cpu", "sum_tree.sample", 32, 1e-3)]
    claim = claim_of("MAP-F12-sampling")
    sample, update = claim.device_tables(frame_of(tmp_path, *rows))  # type: ignore[attr-defined]
    assert {kind: sample.at(kind, 32)[0].number.value for kind in ("cpu", "cuda", "fpga")} == pytest.approx(
        {"cpu": 1e-3, "cuda": 64e-6, "fpga": 32e-6}
    )
    assert sample.at("fpga", 32)[0].how == "S = 1: 9,120 cycles at 285 MHz"
    assert not update.at("fpga", 32)
    assert any("--only MAP-F12-linear" in gap for gap in update.gaps())
