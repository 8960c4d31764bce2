"""PRL Fig. 6 and 7: verdicts on primitives over the batch size, and the figures in their own axes."""

from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.prl import figures_6_7
from placerl.harness.profile import simulated as simulated_profile
from tests.harness.old_form import replace
from tests.harness.papers.device_rows import SIZES, on, steps
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import TOO_FEW, frame_of, profiled, verdict


def test_each_device_has_a_line(tmp_path: Path) -> None:
    rows = [
        profiled(call, 1e-5, size, device=device, workload="cartpole-dqn")
        for call in ("sum_tree.sample", "sum_tree.update", "learner.step")
        for size in (32, 256)
        for device in ("cpu", "cuda:0")
    ]
    frame = frame_of(tmp_path, *rows)
    assert points(figures_6_7.ReplayScalesOnDevices().draw(frame)) == {"CPU": 4, "GPU": 4}
    assert points(figures_6_7.LearnerIsFastestOnDevices().draw(frame)) == {"CPU": 2, "GPU": 2}


def test_the_line_of_the_fpga_has_its_faster_learner(tmp_path: Path) -> None:
    rows = [
        profiled(call, time_s, size, device="fpga:u200", workload="cartpole-dqn")
        for call, time_s in (("learner.step", 1e-5), ("learner.pipeline_step", 2e-6))
        for size in (32, 256)
    ]
    drawn = figures_6_7.LearnerIsFastestOnDevices().draw(frame_of(tmp_path, *rows))
    assert drawn is not None
    (line,) = drawn.axes[0].containers
    assert list(line[0].get_ydata()) == [2e-6, 2e-6]


@pytest.mark.parametrize(("cpu_s", "outcome"), [(4e-6, Outcome.CONSISTENT), (1e-9, Outcome.NOT_REPRODUCED)])
def test_the_gpu_over_the_cpu(cpu_s: float, outcome: Outcome, tmp_path: Path) -> None:
    # PRL: at batch 32 the FPGA's 32 us beat the GPU's 100 us, at 4096 it is the other way round.
    rows = [row for row in steps("cartpole-dqn") if row.device != "cpu"]
    rows += [on("cpu", "learner.step", size, max(cpu_s * size, 1e-8), "cartpole-dqn") for size in SIZES]
    if outcome is Outcome.CONSISTENT:
        rows = [row for row in rows if row.batch_size in (32, 4096)]
        rows = [row for row in rows if (row.device, row.batch_size) != ("cpu", 32)]
        rows.append(on("cpu", "learner.step", 32, 2e-4, "cartpole-dqn"))
    assert verdict("PRL-F7", tmp_path, *rows).finding.outcome is outcome


@pytest.mark.parametrize(
    ("cpu_s", "cuda_s", "fpga_s", "outcome"),
    [
        ((2e-4, 1e-2), (1e-4, 2e-4), (3e-5, 4e-3), Outcome.CONSISTENT),
        (
            (2e-4, 2e-4),
            (1e-4, 2e-4),
            (3e-5, 4e-3),
            Outcome.NO_VERDICT,
        ),  # the CPU is as fast at the largest, within the noise
        ((2e-4, 1e-4), (1e-4, 2e-4), (3e-5, 4e-3), Outcome.NOT_REPRODUCED),
        ((2e-4, 1e-2), (1e-4, 2e-4), (9.9e-5, 4e-3), Outcome.NO_VERDICT),
        ((2e-4, 1e-2), (1e-4, 2e-4), (2e-4, 4e-3), Outcome.NOT_REPRODUCED),  # the FPGA never the fastest
        ((2e-4, 1e-2), (1e-4, 2e-4), (3e-5, 1e-4), Outcome.NO_VERDICT),  # the FPGA always, without its link
    ],
)
def test_the_gpu_over_the_cpu_and_the_fpga_where_it_is_small(
    cpu_s: tuple[float, float],
    cuda_s: tuple[float, float],
    fpga_s: tuple[float, float],
    outcome: Outcome,
    tmp_path: Path,
) -> None:
    rows = [
        on(kind, "learner.step", size, time_s, "cartpole-dqn")
        for kind, times in (("cpu", cpu_s), ("cuda", cuda_s), ("fpga", fpga_s))
        for size, time_s in zip((32, 4096), times, strict=True)
    ]
    assert verdict("PRL-F7", tmp_path / "a", *rows).finding.outcome is outcome
    noisy = [replace(row, **TOO_FEW) if row.device == "cuda" else row for row in rows]
    assert verdict("PRL-F7", tmp_path / "noisy", *noisy).finding.outcome is Outcome.NO_VERDICT
    one = verdict("PRL-F7", tmp_path / "one", *rows[::2])
    assert one.needs == "on every device a batch size of at least 512 (found: 32); the tier standard has both"
    assert (
        verdict("PRL-F7", tmp_path / "none", *rows[:2]).needs
        == "a CUDA device and FPGA primitives (simulated)"
    )
    assert verdict("PRL-F7", tmp_path / "cpu", *rows[2:]).needs == "the same on the CPU"


@pytest.mark.parametrize("sizes", [(32, 256), (64, 4096), (32, 511)])
def test_a_range_that_lacks_small_or_large_batches_shows_nothing(
    sizes: tuple[int, int], tmp_path: Path
) -> None:
    """The CPU is the fastest at every size, which would refute the statement."""
    times_s = {"cpu": (1e-5, 1e-4), "cuda": (1e-4, 2e-4), "fpga": (3e-5, 4e-3)}

    def rows(of: tuple[int, int]) -> list[Row]:
        return [
            on(kind, "learner.step", size, time_s, "cartpole-dqn")
            for kind, times in times_s.items()
            for size, time_s in zip(of, times, strict=True)
        ]

    found = verdict("PRL-F7", tmp_path / "a", *rows(sizes)).finding
    assert found.outcome is Outcome.NOT_RUN
    assert f"(found: {sizes[0]}, {sizes[1]})" in found.needs
    assert len(found.ours) == 6
    assert verdict("PRL-F7", tmp_path / "b", *rows((32, 512))).finding.outcome is Outcome.NOT_REPRODUCED


def test_prl_s_learner_on_the_fpga_is_a_pipeline(tmp_path: Path) -> None:
    """The systolic core alone is never the fastest here; PRL's learner has units for every layer (4.2.1)."""
    times_s = {"cpu": (2e-4, 1e-2), "cuda": (1e-4, 2e-4), "fpga": (2e-4, 4e-3)}
    rows = [
        on(kind, "learner.step", size, time_s, "cartpole-dqn")
        for kind, times in times_s.items()
        for size, time_s in zip((32, 4096), times, strict=True)
    ]
    pipeline = on("fpga", simulated_profile.PIPELINE, 32, 3e-5, "cartpole-dqn")
    assert verdict("PRL-F7", tmp_path / "core", *rows).finding.outcome is Outcome.NOT_REPRODUCED
    assert verdict("PRL-F7", tmp_path / "pipeline", *rows, pipeline).finding.outcome is Outcome.CONSISTENT


def operations(cpu: float, cuda: float, fpga: float) -> list[Row]:
    """Replay operations that take so many times as long at batch 4096 as at 32."""
    grown = {"cpu": cpu, "cuda": cuda, "fpga": fpga}
    return [
        on(kind, primitive, size, 1e-5 * (grown[kind] if size == 4096 else 1), "cartpole-dqn")
        for kind in grown
        for primitive in ("sum_tree.sample", "sum_tree.update")
        for size in (32, 4096)
    ]


def test_replay_scales_better_beside_the_cpu(tmp_path: Path) -> None:
    assert verdict("PRL-F6", tmp_path, *operations(100, 2, 20)).finding.outcome is Outcome.IN_KIND
    # PRL counts the transfers of its FPGA, without which the growth is larger.
    assert verdict("PRL-F6", tmp_path, *operations(10, 2, 20)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("PRL-F6", tmp_path, *operations(10, 20, 2)).finding.outcome is Outcome.NOT_REPRODUCED
    assert verdict("PRL-F6", tmp_path, *operations(10, 2, 10)).finding.outcome is Outcome.NO_VERDICT
    beyond = [
        on("fpga", primitive, 2**16, 1.0, "cartpole-dqn")
        for primitive in ("sum_tree.sample", "sum_tree.update")
    ]
    rows = [*operations(100, 2, 20), *beyond]  # a batch size that the others lack says nothing
    assert verdict("PRL-F6", tmp_path, *rows).finding.outcome is Outcome.IN_KIND
    found = verdict("PRL-F6", tmp_path, *operations(100, 2, 20)).finding
    assert sorted(number.value for number in found.ours) == pytest.approx([2, 2, 20, 20, 100, 100])
    assert "sampling on GPU: batch size 4096 over 32" in {number.quantity for number in found.ours}
    assert "CPU up to 100 times as long; GPU up to 2 times as long; FPGA up to 20" in found.explanation


def test_each_operation_is_held_against_the_same_on_the_cpu(tmp_path: Path) -> None:
    """The GPU's update scales worse than the CPU's, and the CPU's sampling worse than both."""
    grown = {"cpu": (400, 10), "cuda": (1.2, 100), "fpga": (50, 8)}
    rows = [
        on(kind, primitive, size, 1e-5 * (factor if size == 4096 else 1), "cartpole-dqn")
        for kind, factors in grown.items()
        for primitive, factor in zip(("sum_tree.sample", "sum_tree.update"), factors, strict=True)
        for size in (32, 4096)
    ]
    assert verdict("PRL-F6", tmp_path, *rows).finding.outcome is Outcome.NOT_REPRODUCED


def test_growth_between_small_batches_shows_nothing(tmp_path: Path) -> None:
    rows = [
        replace(row, batch_size={32: 32, 4096: 256}[row.batch_size or 0]) for row in operations(10, 2, 20)
    ]
    found = verdict("PRL-F6", tmp_path, *rows).finding
    assert (found.outcome, len(found.ours)) == (Outcome.NOT_RUN, 6)
    assert found.needs.startswith("on every device a batch size of at least 512 (found: 32, 256)")


def test_growth_needs_two_sizes_and_rows_without_noise(tmp_path: Path) -> None:
    rows = operations(100, 2, 20)
    small = [row for row in rows if row.backend != "fpga" or row.batch_size == 32]
    assert verdict("PRL-F6", tmp_path / "small", *small).needs == "two batch sizes on every device"
    apart = [row for row in rows if (row.backend == "fpga") == (row.primitive == "sum_tree.update")]
    assert verdict("PRL-F6", tmp_path / "apart", *apart).needs == "two batch sizes on every device"
    absent = [row for row in rows if row.backend != "fpga"]
    assert verdict("PRL-F6", tmp_path / "absent", *absent).needs == "FPGA primitives (simulated)"
    assert verdict("PRL-F6", tmp_path / "cpu", *rows[4:]).needs == "the same on the CPU"
    opencl = replace(rows[0], device="opencl")
    assert verdict("PRL-F6", tmp_path / "opencl", opencl).finding.outcome is Outcome.NOT_RUN
    noisy = [replace(rows[0], **TOO_FEW), *rows[1:]]
    assert verdict("PRL-F6", tmp_path / "noisy", *noisy).finding.outcome is Outcome.NO_VERDICT
