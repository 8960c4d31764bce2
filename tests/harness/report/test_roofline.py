"""Primitives beside the roofs of their devices, against numbers done by hand."""

from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.profile.simulated import PIPELINE
from placerl.harness.report import pages, roofline, roofline_plot
from placerl.harness.report.reading import read
from placerl.harness.report.rows.primitives import RooflinePoint
from placerl.harness.store.store import Store
from tests.harness.old_form import details_of, replace
from tests.harness.papers.rows import frame_of, measurement, profiled
from tests.harness.report import sample

BY_HAND = {"flops": 8000, "traffic_bytes": 2000, "footprint_bytes": 2**20}


def only_point(tmp_path: Path, work: dict[str, int], time_s: float = 1e-6) -> RooflinePoint:
    rows = [profiled("learner.step", time_s, details={"work": work}), *sample.roofs()]
    frame = frame_of(tmp_path, *rows)
    (point,) = roofline.points(frame, roofline.roofs(frame))
    return point


def test_below_the_ridge_the_memory_that_holds_it_bounds_it(tmp_path: Path) -> None:
    point = only_point(tmp_path, BY_HAND | {"flops": 2000})
    assert point.intensity is not None
    assert point.roof is not None
    assert point.share is not None
    assert point.intensity.value == 1
    assert point.bound == "copy within 16 MiB", "1 MiB is more than the smallest buffers"
    assert point.roof.value == pytest.approx(4e10)
    assert point.achieved.value == pytest.approx(2e9)
    assert point.share.value == pytest.approx(5)
    assert point.share.unit == "%"


def test_above_the_ridge_the_peak_bounds_it(tmp_path: Path) -> None:
    point = only_point(tmp_path, BY_HAND | {"flops": 20_000})
    assert point.bound == "peak"
    assert point.roof is not None
    assert point.roof.value == 1.6e11
    assert (point.achieved.provenance, point.roof.provenance) == ("modelled", "measured")


@pytest.mark.parametrize(
    ("footprint", "served"),
    [(2**10, "512 KiB"), (2**19, "512 KiB"), (2**19 + 1, "16 MiB"), (2**33, "256 MiB")],
)
def test_the_smallest_memory_that_holds_it_serves_it(tmp_path: Path, footprint: int, served: str) -> None:
    point = only_point(tmp_path, {"flops": 1, "traffic_bytes": 10**6, "footprint_bytes": footprint})
    assert point.bound == f"copy within {served}"


def test_what_no_measured_cache_holds_has_no_roof_where_the_memory_was_not_measured(tmp_path: Path) -> None:
    fields = {"suite": "roofs", "device": "cpu", "quantity": "copy_bandwidth", "primitive": "copy_bandwidth"}
    reason = {"status": "not_run", "reason": "needs 4.28 GB of memory; allowed: 0.07 GB"}
    missing = replace(measurement(1.0, **fields, unit="B/s"), value=None, **reason)
    works = {"small": 2**20, "large": 2**33}
    times = [
        profiled(name, 1e-6, details={"work": BY_HAND | {"footprint_bytes": size}})
        for name, size in works.items()
    ]
    measured = [*sample.roofs(), *times]
    for rows, bound in ((measured, "copy within 256 MiB"), ([*measured, missing], "")):
        frame = frame_of(tmp_path / str(len(rows)), *rows)
        points = {p.primitive: p for p in roofline.points(frame, roofline.roofs(frame))}
        assert points["small"].roof is not None
        assert points["large"].bound == bound


def test_what_only_moves_data_is_held_to_the_bandwidth(tmp_path: Path) -> None:
    point = only_point(tmp_path, {"flops": 0, "traffic_bytes": 4000, "footprint_bytes": 2**28})
    assert point.intensity is None
    assert point.achieved.unit == "B/s"
    assert point.share is not None
    assert point.share.value == pytest.approx(100 * 4e9 / 1.2e10)


def test_without_roofs_nothing_is_guessed(tmp_path: Path) -> None:
    frame = frame_of(
        tmp_path, profiled("learner.step", 1e-6, details={"work": BY_HAND}), profiled("other", 1.0)
    )
    (point,) = roofline.points(frame, roofline.roofs(frame))
    assert (point.roof, point.share, point.bound) == (None, None, "")


def test_a_workload_is_held_to_its_own_roof_and_equal_ones_are_one(tmp_path: Path) -> None:
    """A tree's roof depends on its fanout and levels: that of another workload says nothing."""

    def roof(workload: str, primitives: str, quantity: str, value: float) -> Row:
        fields = {"suite": "roofs", "primitive": quantity, "quantity": quantity, "device": "fpga:u200"}
        details = {"primitives": primitives}
        return measurement(value, **fields, workload=workload, unit="FLOP/s", details=details)

    peaks = {"cartpole-dqn": 18.24e9, "hopper-ddpg": 22.8e9}
    work = {"flops": 8000, "traffic_bytes": 8, "footprint_bytes": 8}
    rows = []
    for workload, peak in peaks.items():
        fields = {"workload": workload, "device": "fpga:u200", "backend": "fpga", "details": {"work": work}}
        rows += [profiled("sum_tree.update", 1e-6, **fields), roof(workload, "sum_tree", "peak", peak)]
        rows += [roof(workload, "sum_tree", "copy_bandwidth", 9e10), roof(workload, "learner", "peak", 1e11)]
    frame = frame_of(tmp_path, *rows)
    found = roofline.roofs(frame)
    points = {p.workload: p for p in roofline.points(frame, found)}
    assert {name: p.roof.value for name, p in points.items() if p.roof} == peaks
    (both,) = [r for r in found if r.primitives == "learner"]
    assert both.workloads == ("cartpole-dqn", "hopper-ddpg")
    assert len(both.rate.rows) == 2


def in_bfloat16(row: Row) -> Row:
    """Return a profile's row as that of a learner in bfloat16, or the roof of float32 as that of bfloat16."""
    if row.quantity == "peak":
        return replace(row, value=6.4e11, details={**details_of(row), "precision": "bfloat16"})
    return replace(row, suite="precision_profile", backend="native[bfloat16]")


def test_a_learner_in_bfloat16_is_held_to_the_peak_of_bfloat16(tmp_path: Path) -> None:
    floats = profiled("learner.step", 1e-6, backend="native", details={"work": BY_HAND | {"flops": 200_000}})
    peak = next(roof for roof in sample.roofs() if (roof.device, roof.quantity) == ("cpu", "peak"))
    fixed = replace(in_bfloat16(floats), backend="native[fixed32]")
    rows = [*sample.roofs(), floats, in_bfloat16(floats), fixed, replace(floats, suite="precision_profile")]
    not_run = {"value": None, "status": "not_run", "reason": "needs: AMX"}
    for number, (peaks, bound, roof) in enumerate(
        (
            ([in_bfloat16(peak)], "peak in bfloat16", 6.4e11),
            ([replace(in_bfloat16(peak), **not_run)], "peak", 1.6e11),  # emulated by float32's instructions
        )
    ):
        frame = frame_of(tmp_path / str(number), *rows, *peaks)
        found = roofline.roofs(frame)
        assert [one.name for one in found if one.is_peak and one.device == "cpu"] == list(
            dict.fromkeys(("peak", bound))
        )
        points = {p.backend: p for p in roofline.points(frame, found)}
        assert points.keys() == {"native", "native[bfloat16]"}, "fixed point has other operations"
        assert (points["native"].bound, points["native[bfloat16]"].bound) == ("peak", bound)
        assert points["native[bfloat16]"].roof is not None
        assert points["native[bfloat16]"].roof.value == roof
        assert points["native"].roof is not None
        assert points["native"].roof.value == 1.6e11


@pytest.mark.parametrize("noisy", ["roof", "time"])
def test_what_is_too_noisy_is_marked_in_the_tables(tmp_path: Path, noisy: str) -> None:
    mark = {"status": "too_noisy", "reason": "1 samples"}
    time = profiled("learner.step", 1e-6, details={"work": BY_HAND | {"flops": 20_000}})
    found = [
        replace(roof, **mark) if noisy == "roof" and roof.quantity == "peak" else roof
        for roof in sample.roofs()
    ]
    store = tmp_path / "store.sqlite"
    with Store.open(store) as opened:
        run = opened.begin_run("quick", "r", sample.MACHINE)
        run.finish("a", [replace(time, **mark) if noisy == "time" else time, *found])
    content = read(store)
    (point,) = content.roofline
    assert (point.status, point.bound) == ("too_noisy", "peak")
    assert sum(roof.status == "too_noisy" for roof in content.roofs) == 2 * (noisy == "roof"), "cpu and fpga"
    section = pages.render(content, "primitives").partition('id="roofline"')[2].partition("</section>")[0]
    assert section.count('<span class="badge too-noisy">') == 1 + 2 * (noisy == "roof")


def test_the_pipeline_is_not_held_to_the_systolic_cores_roof(tmp_path: Path) -> None:
    """It has multipliers of its own, several times as many: beside the core's roof it did 347%."""
    work = {"flops": 20_000, "traffic_bytes": 2000, "footprint_bytes": 2000}
    rows = [profiled(n, 1e-6, device="fpga", details={"work": work}) for n in ("learner.step", PIPELINE)]
    frame = frame_of(tmp_path, *rows, *sample.roofs())
    points = {p.primitive: p for p in roofline.points(frame, roofline.roofs(frame))}
    assert points["learner.step"].bound == "peak"
    assert points[PIPELINE].roof is None


def test_every_device_of_a_report_is_drawn_with_its_own_roofs(tmp_path: Path) -> None:
    content = read(sample.write(tmp_path / "store.sqlite"))
    devices = {p.device for p in content.roofline}
    assert devices == {"cpu", "fpga"}
    assert all(p.roof for p in content.roofline)
    on_fpga = [p for p in content.roofline if p.device == "fpga"]
    drawn = roofline_plot.roofline(on_fpga, [r for r in content.roofs if r.device == "fpga"])
    assert drawn is not None
    assert "learner: peak" in drawn
    assert "512 KiB" not in drawn
