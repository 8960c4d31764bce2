"""Which mappings a cell runs, under which loops, and what a strategy may choose among them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placerl.harness import platforms, workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping import VALIDATED, Entry, Loop, Mapping, PerformanceTable, Target
from placerl.harness.mapping.candidates import COMPARED_ONLY
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.profile import simulated
from placerl.harness.profile.cases import piece_cases, primitive_cases, validation_rounds
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.runtime import mapped_parts
from placerl.harness.runtime.fusions import fusions
from placerl.harness.runtime.resolve import runs_free
from placerl.harness.validate import piece_times, plan, tried
from placerl.harness.validate import rows as validation_rows
from placerl.primitives.quantization.precision import FLOAT_32
from tests.harness.old_form import details_of
from tests.harness.validate.achieved import ran, training_row


@pytest.mark.parametrize(
    ("primitive", "target", "provenance"),
    [
        ("round.learn", "fpga", Provenance.MODELLED),
        ("round.sample", "fpga", Provenance.SIMULATED),
        ("overlapped_round.insert", "fpga", Provenance.SIMULATED),
        ("round.collect", "fpga", Provenance.MEASURED),
        ("round.learn", "native", Provenance.MEASURED),
    ],
)
def test_a_piece_on_the_fpga_is_of_the_provenance_of_its_cycles(
    primitive: str, target: str, provenance: Provenance
) -> None:
    case = SimpleNamespace(primitive=primitive, target=Target(target))
    assert validation_rounds.provenance_of(case) is provenance


def test_what_the_workload_cannot_run_under_is_no_choice_of_ours_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    item, check = workloads.load("cartpole-dqn"), mapped_parts.check

    def without_native(item: Any, mapping: Mapping) -> None:
        if mapping.learner.backend == "native":
            raise UserError(mapping, "learner", "native", "torch")
        check(item, mapping)

    monkeypatch.setattr(mapped_parts, "check", without_native)
    monkeypatch.setattr(tried, "fpga_unavailable_reason", lambda: "left out")
    lacking = tried.unsupported(item)
    assert {mapping.learner.backend for mapping in lacking} == {"native"}
    more = tried.unsupported(item, ("fixed32",))
    assert {str(mapping.learner) for mapping in more} == {"native", "native[fixed32]"}
    assert set(lacking) < set(more)
    assert not set(lacking) & set(tried.mappings(item))
    fields = {"workload": "cartpole-dqn", "batch_size": 32}
    ours, theirs, _ = validation_rows.portabilities(
        fields, [ran("torch-flat-cpu", 10.0)], {("sb3", "cpu"): 5.0}, "dqn", {}, lacking
    )
    assert (ours.value, theirs.value) == (320, 160), "another backend of the device can"
    on_gpu = [Mapping.parse("torch:cuda-flat-cpu"), Mapping.parse("torch:cuda-cuda-cpu")]
    ours, theirs, _ = validation_rows.portabilities(
        fields, [ran("torch-flat-cpu", 10.0)], {("sb3", "cpu"): 5.0}, "dqn", {}, on_gpu
    )
    assert (ours.value, theirs.value) == (0, 0)
    assert ours.lacking == ["cuda-cpu", "cuda-cuda"]
    assert theirs.lacking == ["cuda-cuda"]
    (alone, *_) = validation_rows.portabilities(fields, [ran("torch-flat-cpu", 10.0)], {}, "dqn", {})
    assert alone.value == pytest.approx(320)


def test_every_loop_has_a_model_of_its_own() -> None:
    modelled = set(Loop) - {Loop.RESIDENT}
    names = {ComposedLoop(loop).name for loop in modelled}
    assert {VALIDATED[name].loop for name in names} == modelled


@pytest.mark.parametrize(
    ("mapping", "fuses"),
    [
        ("native-native-cpu", True),
        ("torch-native-cpu", True),
        ("torch-flat-cpu", False),
        ("fpga-native-cpu", True),
        ("torch-fpga-cpu", False),
        ("fpga-fpga-fpga", False),
        ("opencl-native-opencl", False),
        ("torch-opencl-opencl", False),
        ("native[fixed32]-native-cpu", True),
    ],
)
def test_a_mapping_is_run_under_each_loop_that_differs(mapping: str, fuses: bool) -> None:
    placement, item = Mapping.parse(mapping), workloads.load("hopper-ddpg")
    apart = (Loop.STRICT,) if fuses else ()
    free = (Loop.CONCURRENT,) if runs_free(item, placement) else ()
    assert bool(free) == (mapping == NATIVE_MAPPING and len(usable_cores()) > 1)
    assert tried.loops(item, placement) == (Loop.FUSED, *apart, Loop.OVERLAPPED, Loop.RELAXED, *free)
    uniform = workloads.override(item, "replay.prioritized", False, "test")
    assert tried.loops(uniform, placement) == (Loop.FUSED, Loop.OVERLAPPED)
    assert tried.loops(workloads.load("hopper-ppo"), placement) == (Loop.FUSED,)


@pytest.mark.slow  # relaxed schedules of every mapping, several times
@pytest.mark.parametrize("precisions", [(), ("fixed32",)])
def test_whatever_a_strategy_may_choose_is_run_under_its_loop(precisions: tuple[str, ...]) -> None:
    """From tables of random times, on this machine's devices and the simulated board.

    `placerl bench gpu` runs the resident loop.
    """
    item, every = workloads.load("cartpole-dqn"), (FLOAT_32, *precisions)
    problem = problem_of(item, 32)
    parts = SharedParts(item, problem)
    pieces = [
        *primitive_cases(item, 32, every),
        *piece_cases(item, 32, parts, every),
        *validation_rounds.validation_cases(item, problem, parts, every),
    ]
    timed = [one for one in pieces if one.target.backend not in COMPARED_ONLY]
    cells = [(one.primitive, one.target, validation_rounds.provenance_of(one)) for one in timed]
    platform = platforms.of_this_machine()
    if not validation_rounds.fpga_unavailable_reason():
        of_trees = [f"sum_tree.{name}" for name in ("sample", "update", "insert")]
        of_board = ("learner.step", *of_trees, "storage.gather", "storage.insert")
        cells += [(name, validation_rounds.FPGA, Provenance.SIMULATED) for name in of_board]
        platform = simulated.with_device(platform, piece_times.BOARD)
    loops = {mapping: tried.loops(item, mapping) for mapping in tried.mappings(item, precisions)}
    rng = np.random.default_rng(0)
    chosen = set()
    for _ in range(4):
        times_s = np.exp(rng.normal(-9, 2, len(cells))).tolist()
        entries = [
            Entry(name, target, 32, time_s, time_s, time_s, provenance)
            for (name, target, provenance), time_s in zip(cells, times_s, strict=True)
        ]
        for strategy in (one for one in VALIDATED.values() if one.loop is not Loop.RESIDENT):
            mapping = strategy.choose(PerformanceTable(entries), problem, platform).mapping
            never_fused = fusions(item, mapping, 0) == (Fusion.NONE,)
            same = strategy.loop is Loop.STRICT and never_fused
            assert (Loop.FUSED if same else strategy.loop) in loops[mapping], (strategy.name, str(mapping))
            chosen.add(mapping)
    assert len(chosen) > 5


def test_the_data_is_stored_on_a_device_of_learner_or_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_parts, "check", lambda item, mapping: None)
    monkeypatch.setattr(tried, "fpga_unavailable_reason", lambda: "no simulator")
    monkeypatch.setattr(tried, "learner_targets", lambda precisions: [Target("torch"), Target("opencl")])
    monkeypatch.setattr(tried, "managers", lambda item: [Target("native"), Target("flat"), Target("opencl")])
    monkeypatch.setattr(tried, "storing_devices", lambda: [Target("opencl"), Target("cuda")])
    item = workloads.load("hopper-ddpg")
    stored = [str(one) for one in tried.mappings(item) if one.storage != Target("cpu")]
    there = [f"opencl-{rmm}-opencl" for rmm in ("native", "flat", "opencl")]
    assert stored == ["torch-opencl-opencl", *there]
    assert not [one for one in tried.mappings(workloads.load("hopper-ppo")) if one.storage != Target("cpu")]


def test_the_board_s_mappings_come_after_those_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tried, "learner_targets", lambda precisions: [Target("torch"), Target("native")])
    monkeypatch.setattr(tried, "managers", lambda item: [Target("flat"), Target("native"), Target("binary")])
    monkeypatch.setattr(mapped_parts, "check", lambda item, mapping: None)
    here = ["torch-flat-cpu", "torch-native-cpu", "native-flat-cpu", "native-native-cpu"]
    pairs = ["fpga-flat", "fpga-native", "torch-fpga", "native-fpga", "fpga-fpga"]
    board = [f"{pair}-{where}" for pair in pairs for where in ("cpu", "fpga")]
    item = workloads.load("hopper-ddpg")
    monkeypatch.setattr(tried, "fpga_unavailable_reason", lambda: "")
    assert list(map(str, tried.mappings(item))) == here + board
    uniform = workloads.override(item, "replay.prioritized", False, "test")
    assert list(map(str, tried.mappings(uniform))) == here
    on_policy = ["torch-native-cpu", "native-native-cpu"]
    assert list(map(str, tried.mappings(workloads.load("hopper-ppo")))) == on_policy
    monkeypatch.setattr(tried, "fpga_unavailable_reason", lambda: "no compiler")
    assert list(map(str, tried.mappings(item))) == here


def test_more_precisions_are_more_mappings_in_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    item = workloads.load("cartpole-dqn")
    few, more = tried.mappings(item), tried.mappings(item, ("fixed32",))
    assert not any(mapping.learner.precision != "float32" for mapping in few)
    assert set(few) < set(more)
    assert Mapping.parse("native[fixed32]-native-cpu") in more
    asked = []

    def validated(*arguments: Any) -> list[Row]:
        asked.append(arguments[-1])
        return [training_row("native-native-cpu", 1.0)]

    monkeypatch.setattr(plan, "validate", validated)
    run = SimpleNamespace(rows=lambda *_, **__: [])
    for cell, suite in (
        (plan.cell(item, 32, 1.0), "validation"),
        (plan.cell(item, 32, 1.0, ("fixed32", "dynamic")), "precision_validation"),
    ):
        (row,) = cell.measure(run, silent)  # type: ignore[arg-type]
        assert row.suite == suite == cell.key.partition("/")[0]
    assert details_of(row)["precisions"] == ["fixed32", "dynamic"]
    assert cell.key == "precision_validation/cartpole-dqn/32/fixed32+dynamic"
    assert asked == [(), ("fixed32", "dynamic")]
