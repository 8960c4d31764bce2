"""Verdicts on FIX's platform and accelerator against a GPU (FIX Fig. 8 and 10) from made-up rows."""

from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.fix import against_gpu, platform
from placerl.harness.papers.fix.throughput import BATCH_SIZES
from tests.harness.old_form import replace
from tests.harness.papers.fix.test_figure_10_array import array, both, verdict
from tests.harness.papers.fix.test_platform import host
from tests.harness.papers.rows import claim_of, frame_of, measurement


def rates(
    quantity: str, device: str = "cpu", rate: float | None = None, experiment: str = "FIX-F8"
) -> list[Row]:
    """Rows of samples per second at every batch size: twice the batch, or a rate."""
    return [
        measurement(
            2.0 * size if rate is None else rate,
            suite="claim",
            workload="halfcheetah-ddpg",
            primitive="training",
            backend="torch",
            device=device,
            batch_size=size,
            quantity=quantity,
            unit="IPS/W" if quantity.endswith("watt") else "IPS",
            details={"experiment": experiment},
        )
        for size in BATCH_SIZES
    ]


def gpu(quantity: str, rate: float) -> list[Row]:
    return rates(quantity, "cuda", rate, "FIX-F8-device")


def on_cpu() -> list[Row]:
    """This host, and the accelerator with which it reaches some 1e4 samples a second."""
    return [*rates("inferences_per_s"), *both([5e4] * 4), *host(5e-3)]


def test_rates_of_a_whole_step_and_of_a_gradient_step_are_shown(tmp_path: Path) -> None:
    def rates(quantity: str) -> list[Row]:
        like = [row for row in host(1e-3) if row.quantity == "environment_time"]
        return [
            replace(row, quantity=quantity, unit="IPS", value=2.0 * row.batch_size, low=None, high=None)
            for row in like
        ]

    whole, alone = rates("inferences_per_s"), rates("learner_inferences_per_s")
    found = verdict("FIX-F8", tmp_path / "a", *whole, *array([5e4] * 4), *host(1e-3))
    assert [n.value for n in found.finding.ours[:4]] == [2.0 * size for size in BATCH_SIZES]
    assert len(found.finding.ours) == 8
    assert found.needs == against_gpu.NEEDS_GPU_STEPS
    assert platform.NEEDS_STEPS in verdict("FIX-F8", tmp_path / "b").needs
    found = verdict("FIX-F10", tmp_path / "c", *alone, *array([5e4] * 4))
    assert [n.value for n in found.finding.ours] == [2.0 * size for size in BATCH_SIZES] + [5e4] * 4
    assert platform.ACCELERATOR not in found.needs
    assert verdict("FIX-F10", tmp_path / "d", *alone).needs.startswith(platform.ACCELERATOR)


@pytest.mark.parametrize("key", ["FIX-F8", "FIX-F10"])
def test_a_comparison_with_a_gpu_is_not_run_without_one(key: str, tmp_path: Path) -> None:
    found = verdict(key, tmp_path, *array([5e4] * 4), *host(1e-3))
    assert found.finding.outcome is Outcome.NOT_RUN
    assert "a CUDA device" in found.needs


@pytest.mark.parametrize(
    ("rate", "outcome"),
    [(5e3, Outcome.CONSISTENT), (2e4, Outcome.NO_VERDICT), (1e6, Outcome.NO_VERDICT)],
)
def test_the_platform_is_compared_with_whole_steps_on_a_gpu(
    rate: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("FIX-F8", tmp_path, *on_cpu(), *gpu("inferences_per_s", rate)).finding
    assert found.outcome is outcome
    gains = [one for one in found.ours if "over the GPU's" in one.quantity]
    assert len(gains) == 16, "at both clocks"
    assert {one.provenance for one in gains} == {Provenance.MODELLED}
    assert "FIX states gains of 1.8 to 4.8." in found.explanation
    assert len(set(found.ours)) == len(found.ours)


@pytest.mark.parametrize(
    ("rate", "per_watt", "outcome"),
    [
        (1e4, 200.0, Outcome.CONSISTENT),
        (1e4, 3000.0, Outcome.NO_VERDICT),  # as efficient as FIX's accelerator
        (1e4, None, Outcome.NO_VERDICT),  # its watts were not read
        (1e6, 200.0, Outcome.NO_VERDICT),  # faster than the accelerator: another generation than FIX's
    ],
)
def test_the_accelerator_is_compared_with_gradient_steps_on_a_gpu(
    rate: float, per_watt: float | None, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*both([5e4] * 4), *gpu("learner_inferences_per_s", rate)]
    rows += gpu("inferences_per_s_per_watt", per_watt) if per_watt else []
    found = verdict("FIX-F10", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert ("were not measured" in found.explanation) is (per_watt is None)


def test_noisy_rates_are_compared_as_far_as_their_intervals_go(tmp_path: Path) -> None:
    noisy = [replace(row, status="too_noisy", reason="wide") for row in gpu("inferences_per_s", 5e3)]
    assert verdict("FIX-F8", tmp_path, *on_cpu(), *noisy).finding.outcome is Outcome.CONSISTENT


def test_steps_on_another_device_are_not_a_gpu_s(tmp_path: Path) -> None:
    elsewhere = rates("inferences_per_s", "cpu", 5e3, "FIX-F8-device")
    assert verdict("FIX-F8", tmp_path, *on_cpu(), *elsewhere).finding.outcome is Outcome.NOT_RUN


def test_the_columns_have_floats_on_cpu_and_gpu_and_both_widths_on_the_fpga(tmp_path: Path) -> None:
    floats = [replace(row, backend="float 32") for row in rates("inferences_per_s", rate=7.0)]
    frame = frame_of(tmp_path, *on_cpu(), *floats, *gpu("inferences_per_s", 9.0))
    (table,) = claim_of("FIX-F8").device_tables(frame)
    assert [one.number.value for one in table.at("cpu", 64)] == [7.0]
    assert [one.number.value for one in table.at("cuda", 64)] == [9.0]
    assert [one.how for one in table.at("fpga", 64)] == ["32-bit activations", "16-bit activations"]
    assert [one.number.value for one in table.published["fpga"][64]] == [13_210]
    (alone,) = claim_of("FIX-F10").device_tables(frame)
    assert [one.number.value for one in alone.at("fpga", 64)] == [5e4, 5e4]
    assert alone.at("cuda", 64) == ()
