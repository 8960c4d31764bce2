"""One kind of device beside another: verdicts from rows that should and should not carry them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import papers, workloads
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome
from harness.plan import plan, tiers
from harness.profile import simulated as simulated_profile
from harness.store.store import Store
from tests.harness.papers.rows import MACHINE, TOO_FEW, profiled
from tests.harness.papers.test_verdicts import verdict

SIZES = (32, 64, 512, 2048, 4096)


def on(kind: str, primitive: str, size: int, time_s: float, workload: str = "hopper-ddpg") -> Measurement:
    backend, device = {"cpu": ("native", "cpu"), "cuda": ("torch", "cuda"), "fpga": ("fpga", "fpga:u200")}[
        kind
    ]
    fields = {"suite": "simulated_profile", "provenance": "simulated"} if kind == "fpga" else {}
    return profiled(primitive, time_s, size, workload=workload, backend=backend, device=device, **fields)


def steps(workload: str = "hopper-ddpg", *, cuda_s: float = 1e-4, fpga_s: float = 1e-6) -> list[Measurement]:
    """The GPU's step takes as long whatever the batch; the others grow with it."""
    cost = {"cpu": lambda size: 4e-6 * size, "cuda": lambda size: cuda_s, "fpga": lambda size: fpga_s * size}
    return [on(kind, "learner.step", size, cost[kind](size), workload) for kind in cost for size in SIZES]


def test_the_fpga_first_then_the_gpu(tmp_path: Path) -> None:
    found = verdict("MAP-F11", tmp_path, *steps()).finding
    assert found.outcome is Outcome.IN_KIND
    assert "32 FPGA, 64 FPGA, 512 GPU" in found.explanation


def test_a_gpu_that_is_always_faster_is_no_crossover(tmp_path: Path) -> None:
    assert verdict("MAP-F11", tmp_path, *steps(cuda_s=1e-7)).finding.outcome is Outcome.NOT_REPRODUCED


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    found = verdict("MAP-F11", tmp_path, *(row for row in steps() if row.device != "cuda"))
    assert found.verdict.startswith("not run: needs a CUDA device")
    assert len(found.finding.ours) == 2 * len(SIZES)
    assert "FPGA" in verdict("MAP-F11", tmp_path, *(row for row in steps() if row.device == "cuda")).needs


def test_the_reference_stands_for_no_device(tmp_path: Path) -> None:
    slow = profiled("learner.step", 1e-9, 32, backend="reference")
    assert all(
        "reference" not in n.quantity for n in verdict("MAP-F11", tmp_path, *steps(), slow).finding.ours
    )


def test_intervals_that_overlap_order_nothing(tmp_path: Path) -> None:
    """At batch 32 the FPGA takes 32 us, and the GPU 31.9 to 32.6 us."""
    rows = [row for row in steps() if (row.device, row.batch_size) != ("cuda", 32)]
    rows.append(on("cuda", "learner.step", 32, 32.2e-6))
    found = verdict("MAP-F11", tmp_path, *rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "32 not told apart" in found.explanation


def test_the_faster_of_the_fpga_s_learners_counts(tmp_path: Path) -> None:
    pipeline = on("fpga", simulated_profile.PIPELINE, 32, 1e-6)
    rows = [row for row in steps(fpga_s=1e-5) if (row.device, row.batch_size) != ("fpga:u200", 32)]
    found = verdict("MAP-F11", tmp_path, *rows, pipeline).finding
    assert "32 FPGA, 64 GPU" in found.explanation


def clocked(row: Measurement) -> Measurement:
    return replace(row, details={"clock_mhz": 285.0, "clock_assumed": True}) if row.backend == "fpga" else row


@pytest.mark.parametrize(
    ("gain", "outcome"), [(90.0, Outcome.IN_KIND), (3.0, Outcome.NO_VERDICT), (0.9, Outcome.NOT_REPRODUCED)]
)
def test_an_order_that_turns_with_the_clock_is_no_verdict(
    gain: float, outcome: Outcome, tmp_path: Path
) -> None:
    """At 64.5 MHz the FPGA is 4.4 times as slow as at 285 MHz."""
    rows = [clocked(row) for row in replay("sum_tree.update", {32: gain, 4096: gain})]
    found = verdict("MAP-F12-update", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert [number.quantity for number in found.ours[:2]] == [
        "batch size 32: FPGA over GPU, at 285 MHz",
        "batch size 32: FPGA over GPU, at 64.5 MHz",
    ]
    assert ("turns with the clock" in found.explanation) == (outcome is Outcome.NO_VERDICT)


def test_each_workload_has_its_own_crossover(tmp_path: Path) -> None:
    rows = [
        on(kind, "learner.step", size, time_s, "pong-dqn")
        for kind, times in {"fpga": (1e-3, 9e-2), "cuda": (5e-3, 6e-3), "cpu": (1.0, 2.0)}.items()
        for size, time_s in zip((8, 256), times, strict=True)
    ]
    assert verdict("MAP-F11-Pong", tmp_path, *rows).finding.outcome is Outcome.IN_KIND
    assert verdict("MAP-F11", tmp_path, *rows).finding.outcome is Outcome.NOT_RUN
    fast = [replace(row, value=1e-6, low=1e-6, high=1e-6) if row.device == "cpu" else row for row in rows]
    assert verdict("MAP-F11-Pong", tmp_path / "cpu", *fast).finding.outcome is Outcome.NOT_REPRODUCED
    alike = [replace(row, high=1.0) if (row.device, row.batch_size) == ("cuda", 256) else row for row in rows]
    assert verdict("MAP-F11-Pong", tmp_path / "alike", *alike).finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(("cpu_s", "outcome"), [(4e-6, Outcome.IN_KIND), (1e-9, Outcome.NOT_REPRODUCED)])
def test_the_gpu_over_the_cpu(cpu_s: float, outcome: Outcome, tmp_path: Path) -> None:
    # PRL: at batch 32 the FPGA's 32 us beat the GPU's 100 us, at 4096 it is the other way round.
    rows = [row for row in steps("cartpole-dqn") if row.device != "cpu"]
    rows += [on("cpu", "learner.step", size, max(cpu_s * size, 1e-8), "cartpole-dqn") for size in SIZES]
    if outcome is Outcome.IN_KIND:
        rows = [row for row in rows if row.batch_size in (32, 4096)]
        rows = [row for row in rows if (row.device, row.batch_size) != ("cpu", 32)]
        rows.append(on("cpu", "learner.step", 32, 2e-4, "cartpole-dqn"))
    assert verdict("PRL-F7", tmp_path, *rows).finding.outcome is outcome


@pytest.mark.parametrize(
    ("cpu_s", "cuda_s", "fpga_s", "outcome"),
    [
        ((2e-4, 1e-2), (1e-4, 2e-4), (3e-5, 4e-3), Outcome.IN_KIND),
        (
            (2e-4, 2e-4),
            (1e-4, 2e-4),
            (3e-5, 4e-3),
            Outcome.NO_VERDICT,
        ),  # the CPU is as fast at the largest, within the noise
        ((2e-4, 1e-4), (1e-4, 2e-4), (3e-5, 4e-3), Outcome.NOT_REPRODUCED),
        ((2e-4, 1e-2), (1e-4, 2e-4), (9.9e-5, 4e-3), Outcome.NO_VERDICT),
        ((2e-4, 1e-2), (1e-4, 2e-4), (2e-4, 4e-3), Outcome.NOT_REPRODUCED),  # the FPGA never the fastest
        ((2e-4, 1e-2), (1e-4, 2e-4), (3e-5, 1e-4), Outcome.NOT_REPRODUCED),  # the FPGA always
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
    assert verdict("PRL-F7", tmp_path / "one", *rows[::2]).needs == "two batch sizes on every device"
    assert (
        verdict("PRL-F7", tmp_path / "none", *rows[:2]).needs
        == "a CUDA device and FPGA primitives (simulated)"
    )
    assert verdict("PRL-F7", tmp_path / "cpu", *rows[2:]).needs == "the same on the CPU"


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
    assert verdict("PRL-F7", tmp_path / "pipeline", *rows, pipeline).finding.outcome is Outcome.IN_KIND


def operations(cpu: float, cuda: float, fpga: float) -> list[Measurement]:
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
    assert verdict("PRL-F6", tmp_path, *operations(10, 2, 20)).finding.outcome is Outcome.NOT_REPRODUCED
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
    assert "cpu up to 100 times as long; cuda up to 2 times as long; fpga up to 20" in found.explanation


def test_growth_needs_two_sizes_and_rows_without_noise(tmp_path: Path) -> None:
    rows = operations(100, 2, 20)
    small = [row for row in rows if row.backend != "fpga" or row.batch_size == 32]
    assert verdict("PRL-F6", tmp_path / "small", *small).needs == "two batch sizes on every device"
    absent = [row for row in rows if row.backend != "fpga"]
    assert verdict("PRL-F6", tmp_path / "absent", *absent).needs == "FPGA primitives (simulated)"
    assert verdict("PRL-F6", tmp_path / "cpu", *rows[4:]).needs == "the same on the CPU"
    opencl = replace(rows[0], device="opencl")
    assert verdict("PRL-F6", tmp_path / "opencl", opencl).finding.outcome is Outcome.NOT_RUN
    noisy = [replace(rows[0], **TOO_FEW), *rows[1:]]
    assert verdict("PRL-F6", tmp_path / "noisy", *noisy).finding.outcome is Outcome.NO_VERDICT


def replay(primitive: str, gains: dict[int, float]) -> list[Measurement]:
    """The FPGA takes 1 us an item; the GPU so many times that."""
    return [
        on(kind, primitive, size, 1e-6 * size * (gain if kind == "cuda" else 1))
        for size, gain in gains.items()
        for kind in ("cuda", "fpga")
    ]


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ({32: 40, 512: 2, 4096: 0.25}, Outcome.REPRODUCED),
        ({32: 40, 4096: 0.25}, Outcome.REPRODUCED),
        ({32: 40, 512: 2, 4096: 0.4}, Outcome.IN_KIND),  # the GPU is not as much faster as MAP's
        ({32: 0.9, 512: 2, 4096: 0.25}, Outcome.NOT_REPRODUCED),  # the GPU is faster at the smallest batch
        ({32: 1.005, 4096: 0.25}, Outcome.NO_VERDICT),
        ({32: 60, 512: 2, 4096: 0.1}, Outcome.IN_KIND),
        ({32: 40, 512: 30, 4096: 20}, Outcome.NOT_REPRODUCED),
        ({32: 40, 512: 2, 4096: 0.995}, Outcome.NO_VERDICT),  # the interval holds 1
        ({32: 40}, Outcome.NOT_RUN),
    ],
)
def test_the_prefix_sum_index_crosses_over(gains: dict[int, float], outcome: Outcome, tmp_path: Path) -> None:
    assert verdict("MAP-F12-sampling", tmp_path, *replay("sum_tree.sample", gains)).finding.outcome is outcome


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ({32: 90, 4096: 12}, Outcome.REPRODUCED),
        ({32: 90, 4096: 3}, Outcome.IN_KIND),
        ({32: 200, 4096: 12}, Outcome.IN_KIND),
        ({32: 90}, Outcome.IN_KIND),  # one size is enough for "always", not for the range
        ({32: 90, 4096: 0.9}, Outcome.NOT_REPRODUCED),
        ({32: 90, 4096: 1.005}, Outcome.NO_VERDICT),
    ],
)
def test_the_update_is_always_faster_on_the_fpga(
    gains: dict[int, float], outcome: Outcome, tmp_path: Path
) -> None:
    assert verdict("MAP-F12-update", tmp_path, *replay("sum_tree.update", gains)).finding.outcome is outcome


def index_times(gpu_over_cpu: dict[int, float], **more: Any) -> list[Measurement]:
    """The prefix sum index of a batch on the GPU and natively, for 1 ms there."""
    rows = []
    for size, times in gpu_over_cpu.items():
        rows.append(profiled("sum_tree.sample", 1e-3, size, **more))
        rows.append(profiled("sum_tree.sample", 1e-3 * times, size, backend="cuda", device="cuda:0", **more))
    return rows


@pytest.mark.parametrize(
    ("gpu_over_cpu", "outcome"),
    [
        ({32: 3.0, 2048: 0.1}, Outcome.REPRODUCED),
        ({32: 3.0}, Outcome.REPRODUCED),
        ({32: 0.5, 2048: 3.0}, Outcome.NOT_REPRODUCED),  # the smallest batch counts
        ({32: 1.0}, Outcome.NO_VERDICT),
        ({}, Outcome.NOT_RUN),
    ],
)
def test_at_the_smallest_batch_the_gpu_is_slower_than_one_thread(
    gpu_over_cpu: dict[int, float], outcome: Outcome, tmp_path: Path
) -> None:
    assert verdict("MAP-IV-C3", tmp_path, *index_times(gpu_over_cpu)).finding.outcome is outcome


def test_an_opencl_device_is_listed_and_decides_nothing(tmp_path: Path) -> None:
    rows = [replace(row, device=row.device.replace("cuda:0", "opencl")) for row in index_times({32: 3.0})]
    found = verdict("MAP-IV-C3", tmp_path, *rows).finding
    assert found.outcome is Outcome.NOT_RUN
    assert [(n.quantity, n.value) for n in found.ours] == [
        ("batch size 32: time on the OpenCL device over one CPU thread", pytest.approx(3.0))
    ]
    assert "decides nothing about a GPU" in found.explanation


def test_a_noisy_index_decides_nothing(tmp_path: Path) -> None:
    assert (
        verdict("MAP-IV-C3", tmp_path, *index_times({32: 3.0}, **TOO_FEW)).finding.outcome
        is Outcome.NO_VERDICT
    )


@pytest.mark.parametrize(
    ("sample", "update", "outcome"),
    [
        (1.1, 2.0, Outcome.IN_KIND),  # 1.1 times as long for 64 times the batch, and 64 times as long
        (64.0, 2.0, Outcome.NOT_REPRODUCED),
        (1.1, 0.03, Outcome.NOT_REPRODUCED),
        (2.0, 2.0, Outcome.NO_VERDICT),  # twice as long: the interval holds the limit
    ],
)
def test_the_gpu_is_bound_by_launches_for_one_operation_alone(
    sample: float, update: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = replay("sum_tree.sample", {32: 64, 2048: sample}) + replay(
        "sum_tree.update", {32: 2, 2048: update}
    )
    assert verdict("MAP-F12-GPU", tmp_path, *rows).finding.outcome is outcome
    assert (
        verdict("MAP-F12-GPU", tmp_path, *replay("sum_tree.sample", {32: 1})).finding.outcome
        is Outcome.NOT_RUN
    )


@pytest.mark.parametrize("key", ["MAP-F12-sampling", "MAP-F12-update"])
def test_noise_on_the_gpu_carries_no_verdict_on_the_replay(key: str, tmp_path: Path) -> None:
    primitive = f"sum_tree.{'sample' if key.endswith('sampling') else 'update'}"
    rows = replay(primitive, {32: 90, 4096: 0.1})
    noisy = [replace(row, **TOO_FEW) if row.device == "cuda" else row for row in rows]
    assert verdict(key, tmp_path / "gpu", *noisy).finding.outcome is Outcome.NO_VERDICT
    apart = [row for row in rows if (row.device, row.batch_size) not in (("cuda", 32), ("fpga:u200", 4096))]
    found = verdict(key, tmp_path / "apart", *apart)
    assert found.needs == "one batch size on GPU and FPGA"
    assert verdict(key, tmp_path / "none", *rows[1::2]).needs == "a CUDA device"


def exact(row: Measurement) -> Measurement:
    return replace(row, low=None, high=None)


def test_cycles_are_exact_and_a_time_without_an_interval_orders_nothing(tmp_path: Path) -> None:
    counted = [exact(row) if row.backend == "fpga" else row for row in steps()]
    assert verdict("MAP-F11", tmp_path / "counted", *counted).finding.outcome is Outcome.IN_KIND
    for device in ("cpu", "cuda"):
        bare = [exact(row) if row.device == device else row for row in steps()]
        assert verdict("MAP-F11", tmp_path / device, *bare).finding.outcome is Outcome.NO_VERDICT
    rows = [
        exact(row) if row.backend == "fpga" else row for row in replay("sum_tree.update", {32: 90, 64: 12})
    ]
    assert verdict("MAP-F12-update", tmp_path / "update", *rows).finding.outcome is Outcome.REPRODUCED
    bare = [exact(row) for row in rows]
    assert verdict("MAP-F12-update", tmp_path / "bare", *bare).finding.outcome is Outcome.NO_VERDICT


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
    assert verdict("MAP-F11", tmp_path, *rows).needs == needs


def test_only_sizes_that_every_device_has_are_compared(tmp_path: Path) -> None:
    rows = [
        on("cuda", "learner.step", 32, 1e-4, "cartpole-ddpg"),
        on("fpga", "learner.step", 64, 1e-6, "cartpole-ddpg"),
    ]
    assert verdict("MAP-F11-CartPole", tmp_path, *rows).needs == "one batch size on every device"


def test_noise_carries_no_verdict_on_the_gpu_s_tree(tmp_path: Path) -> None:
    rows = replay("sum_tree.sample", {32: 64, 2048: 1.1}) + replay("sum_tree.update", {32: 2, 2048: 2})
    noisy = [replace(row, **TOO_FEW) if row.device == "cuda" else row for row in rows]
    assert verdict("MAP-F12-GPU", tmp_path / "gpu", *noisy).finding.outcome is Outcome.NO_VERDICT
    noisy = [row if row.device == "cuda" else replace(row, **TOO_FEW) for row in rows]
    assert verdict("MAP-F12-GPU", tmp_path / "fpga", *noisy).finding.outcome is Outcome.IN_KIND


@pytest.mark.parametrize(
    ("more", "fpga_s", "outcome"),
    [
        ({}, 1e-9, Outcome.IN_KIND),
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
    ("fill", "power", "outcome"),
    [
        (20.0, 1.0, Outcome.IN_KIND),  # a pipeline that fills: less than in proportion at small batches alone
        (0.0, 1.0, Outcome.NOT_REPRODUCED),  # in proportion everywhere
        (20.0, 0.5, Outcome.NOT_REPRODUCED),
    ],
)
def test_the_fpga_is_linear_above_a_size_alone(
    fill: float, power: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        on("fpga", primitive, size, 1e-9 * (fill + size**power))
        for primitive in ("sum_tree.sample", "sum_tree.update")
        for size in (32, 256, 2048, 16384)
    ]
    found = verdict("MAP-F12-linear", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert found.provenance == "simulated"
    assert (
        verdict("MAP-F12-linear", tmp_path / "above", *rows[2:4], *rows[6:]).finding.outcome
        is Outcome.NOT_RUN
    )


@pytest.mark.parametrize(
    ("below", "above", "outcome"),
    [
        (0.89, 0.91, Outcome.IN_KIND),
        (0.89, 1.09, Outcome.IN_KIND),
        (0.91, 1.0, Outcome.NOT_REPRODUCED),  # as good as in proportion below the size, too
        (0.5, 0.89, Outcome.NOT_REPRODUCED),
        (0.5, 1.11, Outcome.NOT_REPRODUCED),
    ],
)
@pytest.mark.parametrize("odd", ["sum_tree.sample", "sum_tree.update"])
def test_growth_within_a_tenth_of_proportion_is_linear(
    odd: str, below: float, above: float, outcome: Outcome, tmp_path: Path
) -> None:
    """Of one operation; the other is linear above the size and grows by half below."""
    rows = []
    for primitive in ("sum_tree.sample", "sum_tree.update"):
        low, high = (below, above) if primitive == odd else (0.5, 1.0)
        for size, time_s in ((32, 1.0), (256, 8 * low), (2048, 1.0), (16384, 8 * high)):
            rows.append(on("fpga", primitive, size, 1e-6 * time_s))
    found = verdict("MAP-F12-linear", tmp_path, *rows).finding
    assert found.outcome is outcome
    shares = {0.5, 1.0, below, above}
    assert sorted({round(number.value, 9) for number in found.ours}) == sorted(shares)


def test_the_replay_with_several_sub_trees_counts_where_it_is_faster(tmp_path: Path) -> None:
    """With one sub-tree growth at small batches is in proportion, with several it is not."""
    one = [
        row for call in simulated_profile.BANKED for row in replay(call, {32: 1, 256: 1, 2048: 1, 16384: 1})
    ]
    rows = [row for row in one if row.backend == "fpga"]
    several = [
        replace(
            on("fpga", name, size, time_s),
            details={"banks": 8},
        )
        for name in simulated_profile.BANKED.values()
        for size, time_s in ((32, 8e-6), (256, 32e-6), (2048, 256e-6), (16384, 2048e-6))
    ]
    alone = verdict("MAP-F12-linear", tmp_path / "one", *rows).finding
    assert (alone.outcome, "Ours has S = 1 at" in alone.explanation) == (Outcome.NOT_REPRODUCED, True)
    found = verdict("MAP-F12-linear", tmp_path / "several", *rows, *several).finding
    assert (found.outcome, "Ours has S = 8 at" in found.explanation) == (Outcome.IN_KIND, True)


READERS = {
    "MAP-F11": "hopper-ddpg",
    "MAP-F11-CartPole": "cartpole-ddpg",
    "MAP-F12-sampling": "hopper-ddpg",
    "MAP-F12-update": "hopper-ddpg",
    "MAP-F12-linear": "hopper-ddpg",
    "PRL-F6": "cartpole-dqn",
    "PRL-F7": "cartpole-dqn",
}


@pytest.mark.parametrize(("key", "name"), READERS.items())
def test_the_small_tier_makes_what_each_claim_reads(key: str, name: str) -> None:
    """A claim that asks for cells of another name than the plan's would find no rows and ask for none."""
    (claim,) = papers.claims(key)[:1]
    keys = [cell.key for cell in plan.needed(plan.plan(tiers.tier("quick")), [claim])]
    simulated = [k for k in keys if k.startswith(f"{simulated_profile.CELL}/{name}/")]
    assert len(simulated) >= 3
    assert all(k in simulated or k.startswith(f"profile/{name}/") for k in keys)
    assert bool(set(keys) - set(simulated)) == (key != "MAP-F12-linear")


def test_rows_under_the_plans_own_keys_carry_a_verdict(tmp_path: Path) -> None:
    """The simulated cells of the small tier are enough for the claim on the FPGA alone."""
    store = Store.open(tmp_path / "store.sqlite")
    run = store.begin_run("quick", "revision", MACHINE)
    (claim,) = papers.claims("MAP-F12-linear")
    sizes = []
    for cell in plan.needed(plan.plan(tiers.tier("quick")), [claim]):
        _, name, size, device, *_ = cell.key.split("/")
        make = plan.simulated_replay_cell if cell.key.endswith("/replay") else plan.simulated_cell
        assert cell.key == make(workloads.load(name), int(size), device).key
        rows = [
            on("fpga", f"sum_tree.{what}", int(size), 1e-9 * (20 + int(size)))
            for what in ("sample", "update")
        ]
        cell.store(run, rows)
        sizes.append(int(size))
    frame = store.frame()
    assert max(sizes) == 16384
    assert all(cell.startswith(f"{simulated_profile.CELL}/hopper-ddpg/") for cell in frame["cell"])
    assert claim.evaluate(frame).finding.outcome is Outcome.IN_KIND


@pytest.mark.parametrize(
    ("size", "update_s", "outcome"),
    [
        (16384, 5e-4, Outcome.IN_KIND),
        (16384, 7.9e-4, Outcome.IN_KIND),
        (16384, 8.1e-4, Outcome.NOT_REPRODUCED),
        (16384, 9e-4, Outcome.NOT_REPRODUCED),
        (2048, 5e-4, Outcome.NOT_RUN),
    ],
)
def test_cartpole_s_replay_behind_the_learner(
    size: int, update_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    times = {"learner.step": 1e-3, "sum_tree.sample": 2e-4, "sum_tree.update": update_s}
    rows = [on("fpga", primitive, size, time_s, "cartpole-ddpg") for primitive, time_s in times.items()]
    found = verdict("MAP-F13-CartPole", tmp_path, *rows, *steps("cartpole-ddpg")).finding
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx([0.2, 1e3 * update_s])


@pytest.mark.parametrize(("update_s", "outcome"), [(5e-4, Outcome.CONSISTENT), (9e-4, Outcome.NO_VERDICT)])
def test_shares_of_a_modelled_learner_reproduce_nothing(
    update_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    times = {"learner.step": 1e-3, "sum_tree.sample": 2e-4, "sum_tree.update": update_s}
    rows = [on("fpga", primitive, 16384, time_s, "cartpole-ddpg") for primitive, time_s in times.items()]
    rows[0] = replace(rows[0], provenance=Provenance.MODELLED)
    assert verdict("MAP-F13-CartPole", tmp_path, *rows).finding.outcome is outcome


def test_a_wide_interval_that_leaves_the_limit_out_decides(tmp_path: Path) -> None:
    """Noise hides a difference only where it is larger than the difference."""
    wide = {"status": "too_noisy", "reason": "the interval is 149% of the median"}

    def outcome(ratio: float, folder: str) -> Outcome:
        rows = [
            replace(row, low=row.value * 0.5, high=row.value * 2.0, **wide)
            for row in index_times({32: ratio})
        ]
        return verdict("MAP-IV-C3", tmp_path / folder, *rows).finding.outcome

    assert outcome(29.0, "far") is Outcome.REPRODUCED
    assert outcome(1 / 29.0, "refuted") is Outcome.NOT_REPRODUCED
    assert outcome(1.5, "near") is Outcome.NO_VERDICT
