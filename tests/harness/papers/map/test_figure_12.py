"""MAP Fig. 12: verdicts on replay operations over the batch size, and the figure in its own axes."""

from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.map import figure_12
from placerl.harness.profile import simulated as simulated_profile
from tests.harness.old_form import replace
from tests.harness.papers.device_rows import on, replay
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import TOO_FEW, frame_of, profiled, verdict


def test_both_calls_have_a_panel(tmp_path: Path) -> None:
    rows = [
        profiled(call, 1e-5, size, device=device)
        for call in figure_12.CALLS
        for size in (32, 256, 2048)
        for device in ("cpu", "cuda:0")
    ]
    figure = figure_12.GpuTimesOverBatch().draw(frame_of(tmp_path, *rows))
    assert points(figure) == {"CPU": 6, "GPU": 6}
    assert figure is not None
    assert len(figure.axes) == 2


def clocked(row: Row) -> Row:
    return replace(row, details={"clock_mhz": 285.0, "clock_assumed": True}) if row.backend == "fpga" else row


@pytest.mark.parametrize(
    ("gain", "outcome"), [(90.0, Outcome.IN_KIND), (3.0, Outcome.CONSISTENT), (0.9, Outcome.NOT_REPRODUCED)]
)
def test_an_order_that_turns_with_the_clock_is_consistent_at_best(
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
    assert ("turns with the clock" in found.explanation) == (outcome is Outcome.CONSISTENT)


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ({32: 40, 512: 2, 16384: 0.25}, Outcome.REPRODUCED),
        ({32: 40, 16384: 0.25}, Outcome.REPRODUCED),
        ({32: 40, 4096: 0.25}, Outcome.IN_KIND),  # MAP's range is of sizes up to 16384
        ({32: 40, 512: 2, 16384: 0.4}, Outcome.IN_KIND),  # the GPU is not as much faster as MAP's
        ({32: 0.9, 512: 2, 16384: 0.25}, Outcome.NOT_REPRODUCED),  # the GPU is faster at the smallest batch
        ({32: 1.005, 16384: 0.25}, Outcome.NO_VERDICT),
        ({32: 60, 512: 2, 16384: 0.1}, Outcome.IN_KIND),
        ({32: 40, 512: 30, 16384: 20}, Outcome.NOT_REPRODUCED),
        ({32: 40, 512: 30, 4096: 20}, Outcome.NO_VERDICT),  # MAP's order may turn above
        ({32: 40, 16384: 0.25, 65536: 20}, Outcome.REPRODUCED),  # MAP says nothing of larger batches
        ({32: 40, 512: 2, 16384: 0.995}, Outcome.NO_VERDICT),  # the interval holds 1
        ({32: 40, 512: 0.25}, Outcome.IN_KIND),
        ({32: 40, 511: 0.25}, Outcome.NOT_RUN),
        ({33: 40, 16384: 0.25}, Outcome.NOT_RUN),
        ({32: 40}, Outcome.NOT_RUN),
    ],
)
def test_the_prefix_sum_index_crosses_over(gains: dict[int, float], outcome: Outcome, tmp_path: Path) -> None:
    assert verdict("MAP-F12-sampling", tmp_path, *replay("sum_tree.sample", gains)).finding.outcome is outcome


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ({32: 90, 16384: 12}, Outcome.REPRODUCED),
        ({32: 90, 4096: 12}, Outcome.IN_KIND),  # MAP's range is of sizes up to 16384
        ({32: 90, 16384: 3}, Outcome.IN_KIND),
        ({32: 200, 16384: 12}, Outcome.IN_KIND),
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
    assert verdict("MAP-F12-update", tmp_path, *replay("sum_tree.update", gains)).finding.outcome is outcome


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
    assert found.needs == f"Hopper's sum tree on GPU and FPGA at a batch size of {needs}"
    assert [number.value for number in found.ours] == pytest.approx([20.0] * len(sizes))


@pytest.mark.parametrize("key", ["MAP-F12-sampling", "MAP-F12-update"])
def test_noise_on_the_gpu_carries_no_verdict_on_the_replay(key: str, tmp_path: Path) -> None:
    primitive = f"sum_tree.{'sample' if key.endswith('sampling') else 'update'}"
    rows = replay(primitive, {32: 90, 16384: 0.1})
    noisy = [replace(row, **TOO_FEW) if row.device == "cuda" else row for row in rows]
    assert verdict(key, tmp_path / "gpu", *noisy).finding.outcome is Outcome.NO_VERDICT
    apart = [row for row in rows if (row.device, row.batch_size) not in (("cuda", 32), ("fpga:u200", 16384))]
    found = verdict(key, tmp_path / "apart", *apart)
    assert (
        found.needs
        == "Hopper's sum tree on GPU and FPGA at a batch size of at most 32 and one of at least 512 (found: none)"
    )
    assert len(found.finding.ours) == 2, "the times, where no gain is known"
    assert verdict(key, tmp_path / "none", *rows[1::2]).needs == "a CUDA device"


@pytest.mark.parametrize(
    ("size", "sample", "update", "outcome"),
    [
        (16384, 1.1, 512, Outcome.IN_KIND),
        (512, 1.1, 16, Outcome.IN_KIND),
        (16384, 64, 512, Outcome.NOT_REPRODUCED),
        (512, 3, 16, Outcome.NOT_REPRODUCED),  # the index grows, already from 32 to 512
        (16384, 1.1, 1.1, Outcome.NOT_REPRODUCED),
        (2048, 1.1, 1.1, Outcome.NO_VERDICT),  # a constant part may hide the update's growth up to here
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
        on("cuda", f"sum_tree.{call}", at, 1e-5 * factor)
        for call, grown in (("sample", sample), ("update", update))
        for at, factor in ((32, 1.0), (size, grown))
    ]
    assert verdict("MAP-F12-GPU", tmp_path, *rows).finding.outcome is outcome


def test_the_gpu_s_operations_are_compared_over_the_same_batch_sizes(tmp_path: Path) -> None:
    rows = replay("sum_tree.sample", {32: 64, 2048: 1.1}) + replay("sum_tree.update", {32: 2, 16384: 2})
    found = verdict("MAP-F12-GPU", tmp_path / "apart", *rows).finding
    assert found.needs == "Hopper's sum tree on the CUDA device at a batch size of at least 512 (found: 32)"
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
    assert verdict("MAP-F12-GPU", tmp_path / "fpga", *noisy).finding.outcome is Outcome.IN_KIND


def of_banks(banks: dict[int, int], times_s: dict[str, dict[int, float]]) -> list[Row]:
    """The FPGA's times by operation and batch size, with so many sub-trees at each batch size; without, one."""
    return [
        replace(on("fpga", primitive, size, time_s), details={"banks": banks[size]} if size in banks else {})
        for primitive, times in times_s.items()
        for size, time_s in times.items()
    ]


FEW_AT_SMALL = {32: 1, 256: 8, 511: 8, 2048: 32, 4096: 32, 6144: 32, 8192: 32, 16384: 32}
"""MAP's replay adds banks up to S = 32."""


@pytest.mark.parametrize(
    ("fill", "power", "more", "outcome", "several"),
    [
        # A pipeline that fills: less than in proportion at small batches alone.
        (20.0, 1.0, (), Outcome.NO_VERDICT, Outcome.IN_KIND),
        (20.0, 1.0, (8192,), Outcome.NO_VERDICT, Outcome.IN_KIND),
        # In proportion everywhere, as the number of banks is the same.
        (0.0, 1.0, (), Outcome.NO_VERDICT, Outcome.NO_VERDICT),
        # A constant part: linear, yet 0.86 of proportion, which a third size shows.
        (400.0, 1.0, (), Outcome.NO_VERDICT, Outcome.NO_VERDICT),
        (400.0, 1.0, (8192,), Outcome.NO_VERDICT, Outcome.IN_KIND),
        # Two sizes show no curve, and a curve may be that of the numbers of banks.
        (20.0, 0.5, (), Outcome.NO_VERDICT, Outcome.NO_VERDICT),
        (20.0, 0.5, (8192,), Outcome.NOT_REPRODUCED, Outcome.NO_VERDICT),
        (20.0, 1.5, (8192,), Outcome.NOT_REPRODUCED, Outcome.NO_VERDICT),
        (20.0, 0.0, (8192,), Outcome.NOT_REPRODUCED, Outcome.NO_VERDICT),  # it grows nowhere
    ],
)
def test_the_fpga_is_linear_above_a_size_alone(
    fill: float, power: float, more: tuple[int, ...], outcome: Outcome, several: Outcome, tmp_path: Path
) -> None:
    """With one number of banks growth as MAP has it shows nothing, as any pipeline grows so; a curve refutes."""
    times_s = {
        primitive: {size: 1e-9 * (fill + size**power) for size in (32, 256, 2048, 16384, *more)}
        for primitive in figure_12.CALLS
    }
    rows = of_banks({}, times_s)
    found = verdict("MAP-F12-linear", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert found.provenance == "simulated"
    straight = [n for n in found.finding.ours if n.quantity.endswith("batch sizes 2048, 8192, 16384")]
    assert len(straight) == 2 * len(more)
    third = "a third batch size there would show a curve" in found.finding.explanation
    assert third == (outcome is Outcome.NO_VERDICT and (fill > 20 or power < 1) and not more)
    with_banks = verdict("MAP-F12-linear", tmp_path / "banks", *of_banks(FEW_AT_SMALL, times_s)).finding
    assert with_banks.outcome is several
    alike = "With one number of banks any pipeline grows so: nothing is shown." in found.finding.explanation
    assert alike == (several is Outcome.IN_KIND)
    assert "nothing is shown" not in with_banks.explanation
    large = [row for row in rows if (row.batch_size or 0) > 256]
    assert verdict("MAP-F12-linear", tmp_path / "above", *large).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("below", "above", "outcome"),
    [
        (0.89, 0.91, Outcome.IN_KIND),
        (0.89, 1.09, Outcome.IN_KIND),
        (0.91, 1.0, Outcome.NO_VERDICT),  # as good as in proportion below the size, too
        (0.5, 0.89, Outcome.NO_VERDICT),
        (0.5, 1.11, Outcome.NO_VERDICT),
    ],
)
@pytest.mark.parametrize("odd", ["sum_tree.sample", "sum_tree.update"])
def test_growth_within_a_tenth_of_proportion_is_linear(
    odd: str, below: float, above: float, outcome: Outcome, tmp_path: Path
) -> None:
    """Of one operation; the other is linear above the size and grows by half below."""
    times_s: dict[str, dict[int, float]] = {}
    for primitive in figure_12.CALLS:
        low, high = (below, above) if primitive == odd else (0.5, 1.0)
        times_s[primitive] = {32: 1e-6, 256: 8e-6 * low, 2048: 1e-6, 16384: 8e-6 * high}
    found = verdict("MAP-F12-linear", tmp_path, *of_banks(FEW_AT_SMALL, times_s)).finding
    assert found.outcome is outcome
    shares = {0.5, 1.0, below, above}
    assert sorted({round(number.value, 9) for number in found.ours}) == sorted(shares)


@pytest.mark.parametrize(
    ("steps", "curved"),
    [
        ((1.0, 0.81), False),
        ((0.81, 1.0), False),
        ((1.0, 0.79), True),
        ((0.79, 1.0), True),
        ((1.0, -0.1), True),
    ],
)
@pytest.mark.parametrize("odd", ["sum_tree.sample", "sum_tree.update"])
def test_growths_per_item_that_differ_by_a_fifth_are_a_curve(
    odd: str, steps: tuple[float, float], curved: bool, tmp_path: Path
) -> None:
    """Microseconds per item from 2048 to 4096 and from there to 6144, of one operation; the other takes 1 us."""
    times_s: dict[str, dict[int, float]] = {}
    for primitive in figure_12.CALLS:
        first, second = steps if primitive == odd else (1.0, 1.0)
        at_2048 = 2048 * (first + second) / 2  # so that both steps together are in proportion
        times = {32: 20.0, 256: 80.0, 2048: at_2048, 4096: at_2048 + 2048 * first}
        times[6144] = times[4096] + 2048 * second
        times_s[primitive] = {size: 1e-6 * time for size, time in times.items()}
    found = verdict("MAP-F12-linear", tmp_path, *of_banks({}, times_s)).finding
    assert found.outcome is (Outcome.NOT_REPRODUCED if curved else Outcome.NO_VERDICT)
    straight = sorted(round(n.value, 9) for n in found.ours if n.quantity.endswith("2048, 4096, 6144"))
    assert straight == [round(min(steps) / max(steps), 9), 1.0]
    several = verdict("MAP-F12-linear", tmp_path / "several", *of_banks(FEW_AT_SMALL, times_s)).finding
    assert several.outcome is (Outcome.NO_VERDICT if curved else Outcome.IN_KIND)


def test_a_curve_of_replays_with_several_numbers_of_sub_trees_is_no_verdict(tmp_path: Path) -> None:
    banks = {32: 1, 256: 1, 2048: 1, 8192: 1, 16384: 8}
    times_s = {
        primitive: {size: 1e-9 * (20 + size / banks[size]) for size in banks} for primitive in figure_12.CALLS
    }
    found = verdict("MAP-F12-linear", tmp_path, *of_banks(banks, times_s)).finding
    assert (found.outcome, "S = 1 and 8 by batch" in found.explanation) == (Outcome.NO_VERDICT, True)


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
    assert (alone.outcome, "Ours has S = 1 at" in alone.explanation) == (Outcome.NO_VERDICT, True)
    found = verdict("MAP-F12-linear", tmp_path / "several", *rows, *several).finding
    assert (found.outcome, "Ours has S = 8 at" in found.explanation) == (Outcome.NO_VERDICT, True)
    assert "nothing is shown" in found.explanation
    few = [row for row in rows if (row.batch_size or 0) <= 32]
    both = [row for row in several if (row.batch_size or 0) > 32]
    found = verdict("MAP-F12-linear", tmp_path / "both", *few, *both).finding
    assert (found.outcome, "Ours has S = 1 and 8 by" in found.explanation) == (Outcome.IN_KIND, True)


def test_a_claim_about_the_simulated_fpga_alone_reads_no_timed_rows() -> None:
    assert figure_12.FpgaTimesAreLinear.reads == ("simulated_profile/hopper-ddpg",)
