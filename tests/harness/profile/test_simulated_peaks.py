"""The peaks of the FPGA's units: what every element can do in a cycle, which no row exceeds."""

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness import workloads
from placerl.harness.core.provenance import Provenance
from placerl.harness.pieces.work import step_work, tree_work
from placerl.harness.profile import machine_peaks, simulated
from placerl.harness.report import roofline
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.fpga.cycles import replay as replay_cycles
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.learner.fpga import LANES, fpga_backend, pipeline
from placerl.primitives.sum_tree.levels import levels_of
from tests.harness.papers.rows import frame_of


@pytest.mark.parametrize("name", ["cartpole-ddpg", "cartpole-dqn", "hopper-ddpg"])
def test_no_unit_is_asked_for_more_than_its_peak(tmp_path: Path, name: str) -> None:
    """By the closed forms of their cycles: full pipelines, without what the simulation adds."""
    item, size, device = workloads.load(name), 256, "fpga:u200"
    algorithm = algorithm_of(item)
    design = pipeline.best_design(algorithm, size, catalogue.device("u200"))
    levels = levels_of(item.replay.capacity, item.replay.fanout)
    timing = replay_cycles.level_timing(fanout=item.replay.fanout, narrow=False, samples=True)
    tree_cycles = replay_cycles.pipeline_cycles(size, levels=levels, timing=timing)
    rows = [
        simulated._row(item, size, device, primitive, cycles, work, {})
        for primitive, cycles, work in (
            ("sum_tree.sample", tree_cycles, tree_work(item, size, update=False)),
            ("sum_tree.update", tree_cycles, tree_work(item, size, update=True)),
            (simulated.PIPELINE, design.formula_cycles, step_work(item, size)),
        )
    ]
    frame = frame_of(tmp_path, *rows, *simulated._peak_rows(item, device))
    points = list(roofline.points(frame, roofline.roofs(frame)))
    shares = {p.primitive: p.share.value for p in points if p.share}
    assert set(shares) == {r.primitive for r in rows}
    assert all(1 < share <= 100 for share in shares.values()), shares


def test_peaks_are_what_every_element_can_do_in_a_cycle() -> None:
    """A core of 16 x 16, a memory word of 16; MAP keeps one of the U200's three dies, 6,840 DSPs, for the replay."""
    item = workloads.load("hopper-ddpg")
    assert (item.replay.capacity, item.replay.fanout) == (1_000_000, 16), "five levels"
    assert (fpga_backend.DEFAULT_SIDE, LANES) == (16, 16)
    rows = simulated._peak_rows(item, "fpga:u200")
    found = {(row.primitives, row.unit): row.value / 285e6 for row in rows}
    multipliers = 6840 * 2 // 3 // 4
    assert found == pytest.approx(
        {
            ("learner.step", "FLOP/s"): 2 * 256,
            ("learner.step", "B/s"): 2 * 4 * 16,
            (simulated.PIPELINE, "FLOP/s"): 2 * multipliers,
            (simulated.PIPELINE, "B/s"): 4 * multipliers,
            ("sum_tree", "FLOP/s"): 16 * 5,
            ("sum_tree", "B/s"): 4 * (16 * 5 + 5 + 1),
        }
    )
    assert {row.provenance for row in rows} == {Provenance.MODELLED}
    assert {row.suite for row in rows} == {machine_peaks.SUITE}
    assert all(row.clock_mhz == 285 for row in rows)


def test_the_peak_of_a_full_tree_is_of_its_levels_alone() -> None:
    """125 leaves under nodes of 5 have three levels; the logarithm is 3.0000000000000004."""
    item = workloads.load("cartpole-ddpg")
    for field, value in (
        ("training.batch_sizes", [32]),
        ("training.learning_starts", 100),
        ("replay.fanout", 5),
        ("replay.capacity", 125),
    ):
        item = workloads.override(item, field, value, "test")
    (peak,) = (
        row
        for row in simulated._peak_rows(item, "fpga:u200")
        if (row.primitives, row.quantity) == ("sum_tree", "peak")
    )
    assert peak.value == pytest.approx(5 * 3 * 285e6)
    assert tree_work(item, 1, update=False).flops == 5 * 3
