"""The FPGA's rows of the primitive table: their clock, their provenance, and what strategies make of them."""

from math import ceil, log
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import platform_model, predicting, roofs, simulated_profile, workload
from harness.cases.work import step_work, tree_work
from harness.errors import UserError
from harness.mapping import Target
from harness.measurement import Measurement
from harness.progress import silent
from harness.provenance import Provenance
from harness.report import roofline
from harness.runtime.compose import algorithm_of
from harness.simulated_profile import DEVICES
from primitives import learner
from primitives.fpga import devices
from primitives.fpga.cycles import replay as replay_cycles
from primitives.learner import fpga_backend, fpga_pipeline
from primitives.learner.graph_learner import GraphLearner
from tests.harness.claims.rows import frame_of

FPGA = next(status for status in learner.backends() if status.name == "fpga")


def row(primitive: str, target: str, seconds: float) -> Measurement:
    return Measurement(
        suite="profile",
        workload="hopper-ddpg",
        primitive=primitive,
        backend=Target.parse(target).backend,
        device=Target.parse(target).device,
        batch_size=256,
        quantity="time_per_call",
        unit="s",
        provenance=Provenance.MEASURED,
        value=seconds,
        details={"target": target},
    )


@pytest.mark.parametrize("device", DEVICES)
def test_the_clock_is_a_papers_and_the_backends(device: str) -> None:
    stated = simulated_profile.clock(device)
    assert stated.provenance == Provenance.PUBLISHED
    assert stated.value * 1e6 == fpga_backend.DEVICES[device.removeprefix("fpga:")]


def test_another_device_is_refused() -> None:
    with pytest.raises(UserError, match="--device: found 'fpga:u9'; allowed: fpga:u200, fpga:u50"):
        simulated_profile.checked_device("fpga:u9")


def test_strategies_choose_among_this_machine_and_the_device() -> None:
    table = [
        row(primitive, target, seconds)
        for target, seconds in (("native", 1e-3), ("fpga:u200", 1e-5))
        for primitive in ("learner.step", "sum_tree.sample", "sum_tree.update")
    ]
    rows = simulated_profile.predictions(workload.load("hopper-ddpg"), 256, table, "fpga:u200")
    assert {item.suite for item in rows} == {simulated_profile.PREDICTIONS}
    chosen = predicting.chosen_mapping(rows, "map-tpds23")
    assert (str(chosen.learner), str(chosen.rmm)) == ("fpga:u200", "fpga:u200")


def test_a_device_comes_with_its_link() -> None:
    host = platform_model.load("pal21")
    platform = simulated_profile.with_device(host, "fpga:u200")
    assert platform.key_of("fpga:u200") == "fpga:u200"
    assert platform.link_gb_s("cpu", "fpga:u200").value == 16


@pytest.mark.parametrize("name", ["cartpole-ddpg", "cartpole-dqn", "hopper-ddpg"])
def test_no_unit_is_asked_for_more_than_its_roof(tmp_path: Path, name: str) -> None:
    """By the closed forms of their cycles: full pipelines, without what the simulation adds."""
    item, size, device = workload.load(name), 256, "fpga:u200"
    algorithm = algorithm_of(item)
    design = fpga_pipeline.best_design(algorithm, size, devices.device("u200"))
    levels = ceil(log(item.replay.capacity, item.replay.fanout))
    tree_cycles = replay_cycles.pipeline_cycles(size, levels=levels, interval=1)
    rows = [
        simulated_profile._row(item, size, device, primitive, cycles, work, {})
        for primitive, cycles, work in (
            ("sum_tree.sample", tree_cycles, tree_work(item, size, update=False)),
            ("sum_tree.update", tree_cycles, tree_work(item, size, update=True)),
            (simulated_profile.PIPELINE, design.formula_cycles, step_work(item, size)),
        )
    ]
    frame = frame_of(tmp_path, *rows, *simulated_profile._roof_rows(item, device))
    points = list(roofline.points(frame, roofline.roofs(frame)))
    shares = {p.primitive: p.share.value for p in points if p.share}
    assert set(shares) == {r.primitive for r in rows}
    assert all(1 < share <= 100 for share in shares.values()), shares


@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds simulations with the C++ compiler
@pytest.mark.skipif(not FPGA.available, reason=FPGA.reason)
def test_rows_are_checked_and_simulated(tmp_path: Path) -> None:
    item = workload.load("cartpole-ddpg")
    item = workload.override(item, "replay.capacity", 4096, "test")
    item = workload.override(item, "training.batch_sizes", [32], "test")
    item = workload.override(item, "training.learning_starts", 100, "test")
    every = simulated_profile.profile(item, 32, "fpga:u200", silent)
    rows = [r for r in every if r.suite == simulated_profile.SUITE]
    assert [r.primitive for r in rows] == [
        "sum_tree.sample",
        "sum_tree.update",
        "sum_tree.insert",
        "learner.step",
        simulated_profile.PIPELINE,
    ]
    for found in rows:
        by_formula = found.primitive == "learner.step"
        assert found.provenance == (Provenance.MODELLED if by_formula else Provenance.SIMULATED)
        assert found.details["clock_assumed"]
        assert found.value == pytest.approx(found.details["cycles"] / 285e6)
        assert found.details["work"]["flops"] > 0
        if "formula" in found.details:
            difference = found.details["cycles"] - found.details["formula_cycles"]
            assert difference == found.details["difference_cycles"]
            assert difference == pytest.approx(sum(found.details["difference_reasons"].values()))
    modelled = {(r.details["primitives"], r.quantity): r for r in every if r.suite == roofs.SUITE}
    assert len(modelled) == len(every) - len(rows) == 6
    assert modelled["learner.step", "peak"].value == pytest.approx(2 * 16**2 * 285e6)
    assert modelled[simulated_profile.PIPELINE, "peak"].value == pytest.approx(2 * 6840 * 2 // 3 / 4 * 285e6)
    assert all(r.provenance == Provenance.MODELLED for r in modelled.values())
    frame = frame_of(tmp_path, *every)
    points = list(roofline.points(frame, roofline.roofs(frame)))
    assert {p.primitive for p in points if p.share} == {r.primitive for r in rows}
    assert all(p.share.value <= 100 for p in points if p.share), "no unit does more than its roof"


@pytest.mark.parametrize(
    ("units", "provenance"),
    [
        (("core", "stream"), Provenance.MODELLED),
        (("core", "reduction"), Provenance.MODELLED),
        (("core", "layout"), Provenance.SIMULATED),
    ],
)
def test_cycles_that_a_formula_hands_on_are_modelled(
    units: tuple[str, ...], provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [fpga_backend.NodeCycles(unit, "kind", ((1,),), 10) for unit in units]
    monkeypatch.setattr(fpga_backend.FpgaExecutable, "node_cycles", lambda *_: nodes)
    for name in ("random_batch", "expected_td_errors", "expect_td_errors"):
        monkeypatch.setattr(simulated_profile, name, lambda *_: None)
    monkeypatch.setattr(GraphLearner, "step", lambda *_: SimpleNamespace(td_errors=None))
    found = simulated_profile._learner_row(workload.load("cartpole-ddpg"), 32, "fpga:u200")
    assert (found.details["cycles"], found.provenance) == (20, provenance)


def test_without_the_tools_rows_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "not installed: verilator")
    rows = simulated_profile.profile(workload.load("hopper-ddpg"), 256, "fpga:u200", silent)
    assert [row.primitive for row in rows] == ["learner.step", simulated_profile.PIPELINE]
    for row in rows:
        assert (row.status, row.reason, row.value) == ("not_run", "needs not installed: verilator", None)
