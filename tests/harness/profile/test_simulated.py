"""The FPGA's rows of the primitive table: their clock, their provenance, and what strategies make of them."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from harness import platforms, workloads
from harness.core.errors import UserError
from harness.core.progress import silent
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.mapping import Target, predict
from harness.profile import machine_peaks, simulated
from harness.profile.cases.work import step_work, tree_work
from harness.profile.simulated import DEVICES
from harness.report import roofline
from harness.workloads.task import algorithm_of
from primitives import learner
from primitives.fpga.cycles import difference_table, simulated_units
from primitives.fpga.cycles import replay as replay_cycles
from primitives.fpga.cycles.learner import Pass, pipeline_cycles
from primitives.fpga.devices import catalogue
from primitives.learner.fpga import LANES, fpga_backend, pipeline
from primitives.learner.graph_learner import GraphLearner
from primitives.sum_tree.levels import levels_of
from tests.harness.papers.rows import frame_of

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


def test_a_mapping_s_replay_is_the_one_with_the_sub_trees_of_the_exploration() -> None:
    one = [row(name, "fpga:u200", 2e-6) for name in simulated.BANKED]
    several = [row(name, "fpga:u200", 1e-6) for name in simulated.BANKED.values()]
    mapped = [replace(r, details={**r.details, "mapped": True}) for r in several]
    here = row("sum_tree.sample", "native", 3e-6)
    found = {(r.primitive, r.device): r.value for r in simulated.as_mapped([here, *one, *mapped])}
    assert found == {
        ("sum_tree.sample", here.device): 3e-6,
        **{(name, one[0].device): 1e-6 for name in simulated.BANKED},
        **{(name, one[0].device): 2e-6 for name in simulated.SINGLE.values()},
    }
    not_run = [replace(r, value=None, status="not_run", reason="needs tools") for r in mapped]
    for rows in ([here, *one, *several], [here, *one, *not_run], [here, *one]):
        assert simulated.as_mapped(rows) == rows


def test_a_mapping_s_learner_is_the_pipeline_where_it_is_the_faster_design() -> None:
    core, pipelined = row("learner.step", "fpga:u200", 3e-6), row(simulated.PIPELINE, "fpga:u200", 1e-6)
    here = row("learner.step", "native", 2e-6)
    mapped = replace(pipelined, details={**pipelined.details, "mapped": True})
    found = {(r.primitive, r.device): r.value for r in simulated.as_mapped([here, core, mapped])}
    assert found == {
        ("learner.step", here.device): 2e-6,
        (simulated.CORE, core.device): 3e-6,
        ("learner.step", core.device): 1e-6,
    }
    slower = replace(pipelined, details={**pipelined.details, "mapped": False})
    for rows in (
        [here, core, slower],
        [here, core, replace(pipelined, value=None, status="not_run", reason="needs tools")],
        [here, core],
    ):
        assert simulated.as_mapped(rows) == rows
    rows = [*(row(name, "fpga:u200", 1e-7) for name in ("sum_tree.sample", "sum_tree.update")), core, mapped]
    made = simulated.predictions(workloads.load("cartpole-ddpg"), 256, rows, "fpga:u200")
    (chosen,) = [r for r in made if r.backend == "map-tpds23" and r.details["chosen"]]
    assert chosen.value == pytest.approx(1e6)


def test_a_device_comes_with_its_link() -> None:
    host = platforms.load("pal21")
    platform = simulated.with_device(host, "fpga:u200")
    assert platform.key_of("fpga:u200") == "fpga:u200"
    assert platform.link_gb_s("cpu", "fpga:u200").value == 16


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
        assert found.details["clock_assumed"]
        assert found.value == pytest.approx(found.details["cycles"] / 285e6)
        assert found.details["work"]["flops"] > 0
        if "formula" in found.details:
            difference = found.details["cycles"] - found.details["formula_cycles"]
            assert difference == found.details["difference_cycles"]
            assert difference == pytest.approx(sum(found.details["difference_reasons"].values()))
    modelled = {(r.details["primitives"], r.quantity): r for r in every if r.suite == machine_peaks.SUITE}
    assert len(modelled) == len(every) - len(rows) == 6
    assert modelled["learner.step", "peak"].value == pytest.approx(2 * 16**2 * 285e6)
    assert modelled[simulated.PIPELINE, "peak"].value == pytest.approx(2 * 6840 * 2 // 3 / 4 * 285e6)
    assert all(r.provenance == Provenance.MODELLED for r in modelled.values())
    frame = frame_of(tmp_path, *every)
    points = list(roofline.points(frame, roofline.roofs(frame)))
    several = set(simulated.BANKED.values())  # the replay's peak is of one sub-tree
    assert {p.primitive for p in points if p.share} == {r.primitive for r in rows} - several
    assert all(p.share.value <= 100 for p in points if p.share), "no unit does more than its peak"


def test_peaks_are_what_every_element_can_do_in_a_cycle() -> None:
    """A core of 16 x 16, a memory word of 16; MAP keeps one of the U200's three dies, 6,840 DSPs, for the replay."""
    item = workloads.load("hopper-ddpg")
    assert (item.replay.capacity, item.replay.fanout) == (1_000_000, 16), "five levels"
    assert (fpga_backend.DEFAULT_SIDE, LANES) == (16, 16)
    rows = simulated._peak_rows(item, "fpga:u200")
    found = {(row.details["primitives"], row.unit): row.value / 285e6 for row in rows}
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
    assert all(row.details["clock_mhz"] == 285 for row in rows)


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
        if (row.details["primitives"], row.quantity) == ("sum_tree", "peak")
    )
    assert peak.value == pytest.approx(5 * 3 * 285e6)
    assert tree_work(item, 1, update=False).flops == 5 * 3


def test_a_row_is_its_cycles_at_the_clock() -> None:
    item = workloads.load("hopper-ddpg")
    work = tree_work(item, 32, update=False)
    found = simulated._row(item, 32, "fpga:u50", "sum_tree.sample", 1640, work, {"extra": 1})
    assert found.value == pytest.approx(1640 / (simulated.clock("fpga:u50").value * 1e6))
    assert (found.provenance, found.unit, found.batch_size) == (Provenance.SIMULATED, "s", 32)
    assert (found.details["cycles"], found.details["items_per_call"], found.details["extra"]) == (1640, 32, 1)
    assert found.details["clock_assumed"] is True
    assert "FIX's design" in str(found.details["clock_source"])


def test_a_difference_from_the_formula_is_told_with_the_reasons_that_there_are() -> None:
    found = simulated._compared(50, 32, "B / S", {"fill": 18.0, "blocked": 0.0})
    assert found == {
        "formula": "B / S",
        "formula_cycles": 32,
        "difference_cycles": 18,
        "difference_reasons": {"fill": 18.0},
    }


def test_a_link_whose_speed_is_not_stated_comes_without_one() -> None:
    """FIX gives none for its U50."""
    platform = simulated.with_device(platforms.load("pal21"), "fpga:u50")
    assert platform.key_of("fpga:u50") == "fpga:u50"
    with pytest.raises(UserError, match="link between"):
        platform.bytes_per_s("cpu", "fpga:u50")


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


def test_a_first_run_is_one_without_simulations_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(simulated.disk_cache, "folder", lambda: tmp_path)
    assert not simulated.is_built()
    (tmp_path / "simulation").mkdir()
    assert not simulated.is_built()
    (tmp_path / "simulation" / "one.so").touch()
    assert simulated.is_built()


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


def test_a_tree_s_row_has_the_cycles_of_its_last_call_beside_map_s_formula(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    item = workloads.load("hopper-ddpg")
    done: list[object] = []
    tree = SimpleNamespace(banks=4, levels=5, fanout=2, last_call_cycles=90)
    case = SimpleNamespace(
        setup=lambda: tree,
        check=done.append,
        inputs=lambda made, rng: int(rng.integers(1000)),
        call=lambda made, inputs: done.append(inputs),
    )
    one = SimpleNamespace(
        case=case, batch_size=64, primitive="sum_tree.update", work=lambda: tree_work(item, 64, update=True)
    )
    monkeypatch.setattr(simulated, "tree_cases", lambda *arguments: [one])
    (found,) = simulated._tree_rows(item, 32, "fpga:u200")
    assert done == [tree, int(np.random.default_rng(3).integers(1000))], (
        "it is checked, and its inputs are fixed"
    )
    assert (found.primitive, found.details["cycles"]) == ("sum_tree.update", 90)
    assert found.details["items_per_call"] == 64, "of its call, which may be one leaf"
    assert found.details["formula_cycles"] == 64 / 4
    assert found.details["difference_cycles"] == 90 - 16
    expected = replay_cycles.difference_terms(90, [64], levels=5, timing=replay_cycles.LevelTiming(1, 4))
    assert found.details["difference_reasons"] == {name: value for name, value in expected.items() if value}


def with_two_banks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The exploration chooses S = 2; the returned list has what it was asked for."""
    explored = simulated.explored
    asked: list[tuple[int, ...]] = []

    def design(target: Target, capacity: int, fanout: int, batch: int) -> Any:
        asked.append((batch, capacity, fanout))
        return replace(explored(target, capacity, fanout, batch), banks=2)

    monkeypatch.setattr(simulated, "explored", design)
    return asked


def test_the_replay_has_as_many_sub_trees_as_the_exploration_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    item, asked, done = workloads.load("hopper-ddpg"), with_two_banks(monkeypatch), list[object]()

    def cases(workload: object, size: int, target: Target, banks: int) -> list[Any]:
        done.append((str(target), banks))
        tree = SimpleNamespace(get=lambda leaves: done.append("read"))
        case = SimpleNamespace(setup=lambda: tree, check=lambda tree: done.append("checked"))
        return [
            SimpleNamespace(
                case=case,
                primitive=name,
                batch_size=1 if name == "sum_tree.insert" else size,
                work=lambda: tree_work(item, size, update=False),
            )
            for name in simulated.BANKED
        ]

    def simulate(
        tree: object, form: str, call: str, size: int, rng: object
    ) -> difference_table.CycleDifference:
        done.append((form, call, size))
        cycles = 100 - len(done)  # fewer in each batch
        return difference_table.CycleDifference("", "", size / 2, cycles, {"fill": 14, "none": 0})

    monkeypatch.setattr(simulated, "tree_cases", cases)
    monkeypatch.setattr(difference_table, "replay_difference", simulate)
    found = simulated.banked_replay(item, 32, "fpga:u200")
    assert asked == [(32, 1_000_000, 16)]
    assert (
        done
        == [
            ("fpga:u200", 2),
            *["checked"] * 3,
            *[("wide", "update", 32), ("wide", "sample", 32), ("wide", "update", 1), "read"]
            * simulated.DRAWS,
        ][:-1]
    ), "reads and writes take turns"
    assert [row.primitive for row in found] == [
        f"sum_tree.banked_{call}" for call in ("sample", "update", "insert")
    ]
    assert {row.details["banks"] for row in found} == {2}
    assert [row.details["formula_cycles"] for row in found] == [16, 16, 0.5]
    assert [row.details["items_per_call"] for row in found] == [32, 32, 1]
    assert found[0].details["difference_reasons"] == {"fill": 14}
    middle = 100 - len(
        ("fpga", *["checked"] * 3, *["update", "sample", "insert", "read"] * 4, "update", "sample")
    )
    assert [row.details["cycles"] for row in found] == [middle, middle + 1, middle - 1], "the median's"
    assert found[0].value == middle / (simulated.clock("fpga:u200").value * 1e6)


@pytest.mark.slow
def test_several_sub_trees_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    item = workloads.override(workloads.load("hopper-ddpg"), "replay.capacity", 16_384, "a test")
    with_two_banks(monkeypatch)
    found = simulated.banked_replay(item, 32, "fpga:u200")
    for row in found:
        assert sum(row.details["difference_reasons"].values()) == row.details["difference_cycles"] > 0
    again = simulated.banked_replay(item, 32, "fpga:u200")
    assert [row.value for row in again] == [row.value for row in found]


def test_several_sub_trees_are_not_run_without_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated.sum_tree_backend, "unavailable_reason", lambda: "no verilator")
    found = simulated.banked_replay(workloads.load("hopper-ddpg"), 256, "fpga:u200")
    assert [(row.primitive, row.status, row.reason) for row in found] == [
        (name, "not_run", "needs no verilator") for name in simulated.BANKED.values()
    ]


def by_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes take the cycles of the closed form, which a simulation must equal, without one."""

    def cycles(work: Pass, *, samples: int, update: int) -> int:
        return pipeline_cycles(work, samples=samples) + update

    monkeypatch.setattr(simulated_units, "pass_cycles", cycles)


@pytest.mark.skipif(not FPGA.available, reason=FPGA.reason)
def test_prl_s_composer_chooses_among_the_numbers_of_pipelines_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_the_closed_form(monkeypatch)
    item = workloads.load("cartpole-dqn")
    rows = list(simulated.pipelined_rows(item, 256, "fpga:u200"))
    names = [f"learner.pipeline_step in {count} streams" for count in (1, 2, 4, 8, 16)]
    assert [r.primitive for r in rows] == names
    *timed, too_many = rows
    assert [r.details["pipelines"] for r in timed] == [1, 2, 4, 8]
    assert {r.provenance for r in timed} == {Provenance.SIMULATED}
    assert (too_many.status, too_many.value) == ("not_run", None)
    assert "16 would need " in too_many.reason
    assert "flip-flops of " in too_many.reason
    own = simulated._pipeline_row(item, 256, "fpga:u200")
    assert own.value in [r.value for r in timed]
    fastest = min(timed, key=lambda r: r.details["cycles"])
    assert fastest.value is not None
    assert own.value is not None
    assert fastest.value < own.value, "MAP's formula adds the pipelines' gradients one after another"
    replay = [row(name, "fpga:u200", 1e-7) for name in ("sum_tree.sample", "sum_tree.update")]
    core = row("learner.step", "fpga:u200", 1.0)
    every = [replace(r, workload=item.name) for r in (*replay, core, own, *timed)]
    made = simulated.predictions(item, 256, every, "fpga:u200")
    (chosen,) = [r for r in made if r.backend == "pearl24" and r.details["chosen"]]
    assert chosen.details["settings"] == {"streams": fastest.details["pipelines"]}
    assert chosen.details["terms_s"]["learner"] == fastest.value


def test_a_batch_that_the_core_learns_has_no_streams_for_mappings() -> None:
    on_pipelines = row("learner.pipeline_step in 2 streams", "fpga:u200", 1e-6)
    for details in ({}, {"mapped": False}):
        rows = [replace(on_pipelines, details={**on_pipelines.details, **details})]
        assert simulated.as_mapped(rows) == rows
    assert list(simulated.pipelined_rows(workloads.load("hopper-ppo"), 64, "fpga:u200")) == []


def test_an_algorithm_that_map_has_no_pipeline_for_has_no_row_of_one() -> None:
    found = simulated._pipeline_row(workloads.load("hopper-ppo"), 64, "fpga:u200")
    assert (found.status, found.value, found.primitive) == ("not_run", None, simulated.PIPELINE)
    assert found.reason.startswith("needs ")
    assert found.details == {"target": "fpga:u200"}


def test_without_the_tools_the_replay_alone_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated.sum_tree_backend, "unavailable_reason", lambda: "no verilator")
    (found,) = simulated.replay(workloads.load("hopper-ddpg"), 256, "fpga:u200")
    assert (found.primitive, found.status, found.reason) == (
        "sum_tree.sample",
        "not_run",
        "needs no verilator",
    )
    monkeypatch.setattr(simulated.sum_tree_backend, "unavailable_reason", lambda: "")
    monkeypatch.setattr(simulated, "_tree_rows", lambda *arguments: list(arguments[1:]))
    monkeypatch.setattr(simulated, "banked_replay", lambda *arguments: ["banked", *arguments[1:]])
    assert simulated.replay(workloads.load("hopper-ddpg"), 256, "fpga:u200") == [
        *(256, "fpga:u200"),
        *("banked", 256, "fpga:u200"),
    ]


def test_the_key_of_a_cell_names_workload_size_and_device() -> None:
    assert simulated.cell_key("hopper-ddpg", 32, "fpga:u50") == "simulated_profile/hopper-ddpg/32/fpga:u50"


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
        monkeypatch.setattr(simulated, name, lambda *_: None)
    monkeypatch.setattr(GraphLearner, "step", lambda *_: SimpleNamespace(td_errors=None))
    found = simulated._learner_row(workloads.load("cartpole-ddpg"), 32, "fpga:u200")
    assert (found.details["cycles"], found.provenance) == (20, provenance)


def test_without_the_tools_rows_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "not installed: verilator")
    rows = simulated.profile(workloads.load("hopper-ddpg"), 256, "fpga:u200", silent)
    assert [row.primitive for row in rows] == ["learner.step", simulated.PIPELINE]
    for row in rows:
        assert (row.status, row.reason, row.value) == ("not_run", "needs not installed: verilator", None)
