"""Which rows give the time of a primitive on a kind of device."""

from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.papers import device_times
from placerl.harness.plan import plan, tiers
from placerl.harness.profile import simulated as simulated_profile
from tests.harness.papers.device_rows import SIZES, on, steps
from tests.harness.papers.rows import frame_of, profiled, verdict


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    found = verdict("MAP-F11", tmp_path, *(row for row in steps() if row.device != "cuda"))
    assert found.verdict.startswith("not run: needs a CUDA device")
    assert len(found.finding.ours) == 2 * len(SIZES)
    assert "FPGA" in verdict("MAP-F11", tmp_path, *(row for row in steps() if row.device == "cuda")).needs


@pytest.mark.parametrize(
    ("sizes", "missing"),
    [
        ([2048, 8], ""),
        ([8, 100], ""),
        ([8, 99], "a batch size of at least 100 (found: 8, 99)"),
        ([100, 9], "a batch size of at most 8 (found: 9, 100)"),
        ([99, 9], "a batch size of at most 8 and one of at least 100 (found: 9, 99)"),
        ([], "a batch size of at most 8 and one of at least 100 (found: none)"),
    ],
)
def test_sizes_have_to_reach_from_a_small_batch_to_a_large_one(sizes: list[int], missing: str) -> None:
    assert device_times.missing_sizes(sizes, 8, 100) == missing


def test_the_reference_stands_for_no_device(tmp_path: Path) -> None:
    slow = profiled("learner.step", 1e-9, 32, backend="reference")
    assert all(
        "reference" not in n.quantity for n in verdict("MAP-F11", tmp_path, *steps(), slow).finding.ours
    )


def test_the_faster_of_the_fpga_s_learners_counts(tmp_path: Path) -> None:
    pipeline = on("fpga", simulated_profile.PIPELINE, 32, 1e-6)
    rows = [row for row in steps(fpga_s=1e-5) if (row.device, row.batch_size) != ("fpga:u200", 32)]
    found = verdict("MAP-F11", tmp_path, *rows, pipeline).finding
    assert "32 FPGA, 64 GPU" in found.explanation
    quantities = [number.quantity for number in found.ours]
    assert "gradient step in the FPGA's pipeline, fpga:u200, batch size 32" in quantities
    assert "gradient step, torch on cuda, batch size 32" in quantities


def test_a_panel_draws_the_fastest_of_each_kind_on_logarithmic_axes(tmp_path: Path) -> None:
    rows = [*steps(), profiled("learner.step", 1e-9, 32, backend="slower", device="cpu")]
    frame = frame_of(tmp_path, *rows)
    drawn = device_times.panel(device_times.learner_times(frame, "hopper-ddpg"), "steps", [("limit", 64.0)])
    assert (drawn.log_x, drawn.log_y, drawn.title) == (True, True, "steps")
    assert list(drawn.published_x) == [("limit", 64.0)]
    assert [line.label for line in drawn.lines] == ["CPU", "GPU", "FPGA (simulated)"]
    assert drawn.lines[0].points[0][1].value == 1e-9
    assert all([size for size, _ in line.points] == list(SIZES) for line in drawn.lines)


def test_only_sizes_that_every_device_has_are_compared(tmp_path: Path) -> None:
    rows = [
        on("cuda", "learner.step", 32, 1e-4, "cartpole-ddpg"),
        on("fpga", "learner.step", 64, 1e-6, "cartpole-ddpg"),
    ]
    assert verdict("MAP-F11-CartPole", tmp_path, *rows).needs == "one batch size on every device"


READERS = {
    "MAP-F11": "hopper-ddpg",
    "MAP-F11-CartPole": "cartpole-ddpg",
    "PRL-F6": "cartpole-dqn",
    "PRL-F7": "cartpole-dqn",
}


@pytest.mark.parametrize(("key", "name"), READERS.items())
def test_the_small_tier_makes_what_each_claim_reads(key: str, name: str) -> None:
    """A claim that asks for cells of another name than the plan's would find no rows and ask for none."""
    (claim,) = papers.claims(key)[:1]
    keys = [cell.key for cell in plan.needed(plan.plan(tiers.tier("quick")), [claim], tiers.tier("quick"))]
    simulated = [k for k in keys if k.startswith(f"{simulated_profile.CELL}/{name}/")]
    assert len(simulated) >= 3
    assert all(k in simulated or k.startswith(f"profile/{name}/") for k in keys)
    assert set(keys) - set(simulated)
