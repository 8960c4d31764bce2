"""MAP Fig. 11: verdicts on gradient steps over the batch size, and the figure in its own axes."""

from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.papers import Outcome
from placerl.harness.papers.map import figure_11
from tests.harness.papers.device_rows import on, steps
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import TOO_FEW, frame_of, profiled, verdict


def test_the_fastest_backend_of_each_device_is_drawn(tmp_path: Path) -> None:
    rows = [
        profiled("learner.step", time_s, size, backend=backend, device=device)
        for size in (32, 256)
        for backend, device, time_s in (
            ("native", "cpu", 2e-3),
            ("torch", "cpu", 1e-3),
            ("torch", "cuda:0", 5e-4),
            ("reference", "cpu", 1e-6),
        )
    ]
    figure = figure_11.HopperCrossesOver().draw(frame_of(tmp_path, *rows))
    assert points(figure) == {"CPU": 2, "GPU": 2}
    assert figure is not None
    assert list(figure.axes[0].containers[0][0].get_ydata()) == [1e-3, 1e-3]
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [one for one in said if "published" in one] == [
        "the FPGA is fastest below (published)",
        "the GPU above (published)",
    ]
    assert figure_11.CartPoleIsFastestOnFpga().draw(frame_of(tmp_path / "other", *rows)) is None


def test_the_fpga_first_then_the_gpu(tmp_path: Path) -> None:
    found = verdict("MAP-F11", tmp_path, *steps()).finding
    assert found.outcome is Outcome.CONSISTENT
    assert "32 FPGA, 64 FPGA, 512 GPU" in found.explanation


def test_a_gpu_that_is_always_faster_is_no_crossover(tmp_path: Path) -> None:
    assert verdict("MAP-F11", tmp_path, *steps(cuda_s=1e-7)).finding.outcome is Outcome.NOT_REPRODUCED


def test_each_workload_has_its_own_crossover(tmp_path: Path) -> None:
    rows = [
        on(kind, "learner.step", size, time_s, "pong-dqn")
        for kind, times in {"fpga": (1e-3, 9e-2), "cuda": (5e-3, 6e-3), "cpu": (1.0, 2.0)}.items()
        for size, time_s in zip((8, 256), times, strict=True)
    ]
    assert verdict("MAP-F11-Pong", tmp_path, *rows).finding.outcome is Outcome.CONSISTENT
    assert verdict("MAP-F11", tmp_path, *rows).finding.outcome is Outcome.NOT_RUN
    fast = [replace(row, value=1e-6, low=1e-6, high=1e-6) if row.device == "cpu" else row for row in rows]
    assert verdict("MAP-F11-Pong", tmp_path / "cpu", *fast).finding.outcome is Outcome.NOT_REPRODUCED
    alike = [replace(row, high=1.0) if (row.device, row.batch_size) == ("cuda", 256) else row for row in rows]
    assert verdict("MAP-F11-Pong", tmp_path / "alike", *alike).finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(
    ("sizes", "needs"),
    [
        ((32, 2048), ""),
        ((32, 64), "batch sizes below 128 and above 1024"),
        ((2048, 4096), "batch sizes below 128 and above 1024"),
        ((128, 1024), "batch sizes below 128 and above 1024"),  # at the limits MAP says nothing
    ],
)
def test_a_crossover_needs_sizes_on_both_sides(sizes: tuple[int, ...], needs: str, tmp_path: Path) -> None:
    rows = [on(kind, "learner.step", size, 1e-4) for kind in ("cpu", "cuda", "fpga") for size in sizes]
    said = f"hopper-ddpg's learner on every device at {needs}" if needs else ""
    assert verdict("MAP-F11", tmp_path, *rows).needs == said


@pytest.mark.parametrize(
    ("more", "fpga_s", "outcome"),
    [
        ({}, 1e-9, Outcome.CONSISTENT),
        ({}, 1e-6, Outcome.NOT_REPRODUCED),
        (TOO_FEW, 1e-9, Outcome.NO_VERDICT),
        (TOO_FEW, 1e-6, Outcome.NO_VERDICT),
    ],
)
def test_the_smallest_network_trains_fastest_on_the_fpga(
    more: dict[str, str], fpga_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        replace(row, **more) if row.device == "cuda" else row for row in steps("cartpole-ddpg", fpga_s=fpga_s)
    ]
    assert verdict("MAP-F11-CartPole", tmp_path, *rows).finding.outcome is outcome


@pytest.mark.parametrize(
    ("sizes", "fpga_s", "outcome"),
    [
        ((32, 512), 1e-9, Outcome.CONSISTENT),
        ((32, 511), 1e-9, Outcome.NOT_RUN),
        ((64, 4096), 1e-9, Outcome.NOT_RUN),
        ((64,), 1e-3, Outcome.NOT_REPRODUCED),  # one size refutes "every"
    ],
)
def test_every_batch_size_is_shown_by_small_and_large_ones(
    sizes: tuple[int, ...], fpga_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        on(kind, "learner.step", size, time_s, "cartpole-ddpg")
        for kind, time_s in (("cpu", 2e-4), ("cuda", 1e-4), ("fpga", fpga_s))
        for size in sizes
    ]
    found = verdict("MAP-F11-CartPole", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert len(found.finding.ours) == 3 * len(sizes)
    assert found.needs.startswith("on every device a batch size of at ") == (outcome is Outcome.NOT_RUN)


def test_pong_s_curves_are_made_at_a_small_and_a_large_batch() -> None:
    assert figure_11.PongCrossesOver.commands == tuple(
        f"placerl profile pong-dqn --batch-size {size}{device}"
        for size in (8, 64)
        for device in ("", " --device fpga:u200")
    )


def test_cartpole_s_times_are_those_of_all_devices() -> None:
    assert figure_11.CartPoleIsFastestOnFpga.reads == (
        "profile/cartpole-ddpg",
        "simulated_profile/cartpole-ddpg",
    )
