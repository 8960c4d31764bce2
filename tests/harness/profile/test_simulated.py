"""The FPGA's rows of the primitive table: their clock, their provenance, and what strategies make of them."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness import platforms, workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import predict
from placerl.harness.pieces.work import tree_work
from placerl.harness.profile import machine_peaks, simulated
from placerl.harness.profile.simulated import DEVICES
from placerl.harness.report import roofline
from placerl.primitives import learner
from placerl.primitives.learner.fpga import fpga_backend
from tests.harness.old_form import details_of
from tests.harness.papers.rows import frame_of
from tests.harness.profile.simulated_rows import FPGA, row


@pytest.mark.parametrize("device", DEVICES)
def test_the_clock_is_a_papers_and_the_backends(device: str) -> None:
    stated = simulated.clock(device)
    assert stated.provenance == Provenance.PUBLISHED
    assert stated.value * 1e6 == fpga_backend.DEVICES[device.removeprefix("fpga:")]


def test_another_device_is_refused() -> None:
    with pytest.raises(UserError, match="--device: found 'fpga:u9'; allowed: fpga:u200, fpga:u50"):
        simulated.checked_device("fpga:u9")


def test_strategies_choose_among_this_machine_and_the_device() -> None:
    table = [
        row(primitive, target, seconds)
        for target, seconds in (("native", 1e-3), ("fpga:u200", 1e-5))
        for primitive in ("learner.step", "sum_tree.sample", "sum_tree.update")
    ]
    rows = simulated.predictions(workloads.load("hopper-ddpg"), 256, table, "fpga:u200")
    assert {item.suite for item in rows} == {simulated.PREDICTIONS}
    chosen = predict.chosen_mapping(rows, "map-tpds23")
    assert (str(chosen.learner), str(chosen.rmm)) == ("fpga:u200", "fpga:u200")


def test_a_device_comes_with_its_link() -> None:
    host = platforms.load("pal21")
    platform = simulated.with_device(host, "fpga:u200")
    assert platform.key_of("fpga:u200") == "fpga:u200"
    assert platform.link_gb_s("cpu", "fpga:u200").value == 16


@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds simulations with the C++ compiler
@pytest.mark.skipif(not FPGA.available, reason=FPGA.reason)
def test_rows_are_checked_and_simulated(tmp_path: Path) -> None:
    item = workloads.load("cartpole-ddpg")
    item = workloads.override(item, "replay.capacity", 4096, "test")
    item = workloads.override(item, "training.batch_sizes", [32], "test")
    item = workloads.override(item, "training.learning_starts", 100, "test")
    every = simulated.profile(item, 32, "fpga:u200", silent)
    rows = [r for r in every if r.suite == simulated.SUITE]
    assert [r.primitive for r in rows] == [
        "sum_tree.sample",
        "sum_tree.update",
        "sum_tree.insert",
        *simulated.BANKED.values(),
        "learner.step",
        simulated.PIPELINE,
        *(f"{simulated.PIPELINE} in {count} streams" for count in (1, 2, 4, 8, 16, 32)),
    ]
    for found in rows:
        by_formula = found.primitive == "learner.step"
        assert found.provenance == (Provenance.MODELLED if by_formula else Provenance.SIMULATED)
        assert found.clock_assumed
        assert found.value == pytest.approx(found.cycles / 285e6)
        assert found.work["flops"] > 0
        if "formula" in details_of(found):
            difference = found.cycles - found.formula_cycles
            assert difference == found.difference_cycles
            assert difference == pytest.approx(sum(found.difference_reasons.values()))
    modelled = {(r.primitives, r.quantity): r for r in every if r.suite == machine_peaks.SUITE}
    assert len(modelled) == len(every) - len(rows) == 6
    assert modelled["learner.step", "peak"].value == pytest.approx(2 * 16**2 * 285e6)
    assert modelled[simulated.PIPELINE, "peak"].value == pytest.approx(2 * 6840 * 2 // 3 / 4 * 285e6)
    assert all(r.provenance == Provenance.MODELLED for r in modelled.values())
    frame = frame_of(tmp_path, *every)
    points = list(roofline.points(frame, roofline.roofs(frame)))
    several = set(simulated.BANKED.values())  # the replay's peak is of one sub-tree
    assert {p.primitive for p in points if p.share} == {r.primitive for r in rows} - several
    assert all(p.share.value <= 100 for p in points if p.share), "no unit does more than its peak"


def test_a_row_is_its_cycles_at_the_clock() -> None:
    item = workloads.load("hopper-ddpg")
    work = tree_work(item, 32, update=False)
    found = simulated._row(item, 32, "fpga:u50", "sum_tree.sample", 1640, work, {"banks": 1})
    assert found.value == pytest.approx(1640 / (simulated.clock("fpga:u50").value * 1e6))
    assert (found.provenance, found.unit, found.batch_size) == (Provenance.SIMULATED, "s", 32)
    assert (found.cycles, found.items_per_call, found.banks) == (1640, 32, 1)
    assert found.clock_assumed is True
    assert "FIX's design" in str(found.clock_source)


def test_a_difference_from_the_formula_is_told_with_the_reasons_that_there_are() -> None:
    found = simulated._compared(50, 32, "B / S", {"fill": 18.0, "blocked": 0.0})
    assert found == {
        "formula": "B / S",
        "formula_cycles": 32,
        "difference_cycles": 18,
        "difference_reasons": {"fill": 18.0},
    }


def test_a_device_comes_with_the_link_that_its_own_platform_states() -> None:
    platform = simulated.with_device(platforms.load("pal21"), "fpga:u50")
    assert platform.key_of("fpga:u50") == "fpga:u50"
    assert platform.bytes_per_s("cpu", "fpga:u50") == platforms.load("fixar21").bytes_per_s("cpu", "fpga")


def test_a_device_is_refused_where_its_hardware_cannot_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [replace(FPGA, available=False, reason="no verilator")]
    for module in (learner, simulated.sum_tree):
        with monkeypatch.context() as patch:
            for one in (learner, simulated.sum_tree):
                patch.setattr(one, "backends", lambda: [replace(FPGA, available=True)])
            patch.setattr(module, "backends", lambda: missing)
            with pytest.raises(UserError, match="'fpga:u200': no verilator; allowed: what is available"):
                simulated.checked_device("fpga:u200")
    # One of a name before "fpga", one after.
    others = [replace(FPGA, name=name, available=False) for name in ("cuda", "opencl")]
    others.append(replace(FPGA, available=True))
    for one in (learner, simulated.sum_tree):
        monkeypatch.setattr(one, "backends", lambda: others)
    assert simulated.checked_device("fpga:u200") == "fpga:u200"


@pytest.mark.parametrize(
    ("name", "prioritized", "with_replay"),
    [("hopper-ddpg", True, True), ("hopper-ddpg", False, False), ("hopper-ppo", True, False)],
)
def test_a_profile_has_the_replay_where_there_is_one_then_both_learners_and_the_peaks(
    monkeypatch: pytest.MonkeyPatch, name: str, prioritized: bool, with_replay: bool
) -> None:
    item = workloads.override(workloads.load(name), "replay.prioritized", prioritized, "test")
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "")
    tree = row("sum_tree.sample", "fpga", 1.0)
    monkeypatch.setattr(simulated, "_tree_rows", lambda *arguments: [tree])
    monkeypatch.setattr(simulated, "banked_replay", lambda *arguments: [replace(tree, value=1.5)])
    monkeypatch.setattr(simulated, "_learner_row", lambda *arguments: row("learner.step", "fpga", 2.0))
    monkeypatch.setattr(simulated, "_pipeline_row", lambda *arguments: row("pipeline", "fpga", 3.0))
    monkeypatch.setattr(simulated, "pipelined_rows", lambda *arguments: [row("pipelines", "fpga", 3.5)])
    monkeypatch.setattr(simulated, "_peak_rows", lambda *arguments: [row("roof", "fpga", 4.0)])
    said: list[tuple[float, float, str]] = []
    rows = simulated.profile(item, 8, "fpga:u200", lambda *progress: said.append(progress))
    assert [r.value for r in rows] == [1.0, 1.5] * with_replay + [2.0, 3.0, 3.5, 4.0]
    assert [(done, total) for done, total, _ in said] == [(0, 3)] * with_replay + [(1, 3), (2, 3), (3, 3)]


def test_the_key_of_a_cell_names_workload_size_and_device() -> None:
    assert simulated.cell_key("hopper-ddpg", 32, "fpga:u50") == "simulated_profile/hopper-ddpg/32/fpga:u50"


def test_without_the_tools_rows_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "not installed: verilator")
    rows = simulated.profile(workloads.load("hopper-ddpg"), 256, "fpga:u200", silent)
    assert [row.primitive for row in rows] == ["learner.step", simulated.PIPELINE]
    for one in rows:
        assert (one.status, one.reason, one.value) == ("not_run", "needs not installed: verilator", None)
