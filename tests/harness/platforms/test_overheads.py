"""Overheads that a platform's file leaves open."""

from pathlib import Path

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.core.shipped import shipped
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.absent_platforms import modelled, work_of
from placerl.harness.mapping.roofline import Modelled
from placerl.harness.platforms import overheads
from placerl.harness.store import reference
from placerl.harness.store.rows import PieceTime

JETSON = """
name = "jetson"
[[device]]
key = "cpu"
kind = "cpu"
name = "Cortex-A78AE"
memory_gb_s = { value = 60, provenance = "published", source = "data sheet" }
peak_tops = { value = 0.1, provenance = "published", source = "data sheet" }
peak_type = "fp32"
[[device]]
key = "gpu"
kind = "gpu"
name = "Orin"
launch_us = { value = 2.5, provenance = "published", source = "a paper" }
memory_gb_s = { value = 100, provenance = "published", source = "data sheet" }
peak_tops = { value = 3, provenance = "published", source = "data sheet" }
peak_type = "fp32"
[[link]]
between = ["cpu", "gpu"]
gb_s = { value = 50, provenance = "published", source = "data sheet" }
"""


def test_what_is_stated_stays_and_what_is_not_is_filled_in_and_said(tmp_path: Path) -> None:
    path = tmp_path / "jetson.toml"
    path.write_text(JETSON)
    whole, said = overheads.completed(platforms.load(path))
    assert whole.find("gpu").launch_us == platforms.load(path).find("gpu").launch_us
    dispatch = whole.find("cpu").dispatch_us
    assert dispatch is not None
    assert "another device" in dispatch.source
    (line,) = said
    assert line.startswith(
        "jetson: device 'cpu'.dispatch_us: found nothing; taken 1.6 us, measured on another device"
    )
    assert overheads.completed(whole) == (whole, ())


def test_a_small_network_is_bound_by_its_launches_on_every_gpu(tmp_path: Path) -> None:
    path = tmp_path / "jetson.toml"
    path.write_text("".join(line for line in JETSON.splitlines(keepends=True) if "launch_us" not in line))
    item = workloads.load("hopper-ddpg")
    steps = [
        one
        for one in modelled(item, 256, platforms.load(path))
        if isinstance(one, Modelled)
        and one.entry.primitive == "learner.step"
        and one.entry.target.device != "cpu"
    ]
    (step,) = steps
    operations = work_of(item, 256).operations
    assert step.entry.time_s == pytest.approx(operations * 7.8e-6)
    assert "on an NVIDIA H200" in step.formula


def test_the_number_for_gpus_is_what_the_committed_run_shows() -> None:
    stored = reference.load_one(shipped("results", "reference", "with-gpu.json")).measurements
    costs_us = sorted(
        1e6 * row.value / work_of(workloads.load(row.workload), row.batch_size).operations
        for row in stored
        if isinstance(row, PieceTime)
        and (row.suite, row.primitive, row.target) == (Suite.PROFILE, "learner.step", "torch:cuda")
        and row.value
        and row.batch_size
    )
    field, number = overheads.UNSTATED["gpu"]
    assert field == "launch_us"
    assert costs_us[len(costs_us) // 2] == pytest.approx(number.value, abs=0.05)
    assert f"{costs_us[0]:.1f} to {costs_us[-1]:.1f} us" in number.source
