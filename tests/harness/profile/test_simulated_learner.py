"""The FPGA's learners: the systolic core, and MAP's pipelines in one stream and in several."""

from types import SimpleNamespace

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness import workloads
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import predict
from placerl.harness.profile import simulated
from placerl.primitives.fpga.cycles import simulated_units
from placerl.primitives.fpga.cycles.learner import Pass, pipeline_cycles
from placerl.primitives.learner.fpga import fpga_backend
from placerl.primitives.learner.graph_learner import GraphLearner
from tests.harness.old_form import details_of, replace
from tests.harness.profile.simulated_rows import FPGA, row


def test_a_mapping_s_learner_is_the_pipeline_where_it_is_the_faster_design() -> None:
    core, pipelined = row("learner.step", "fpga:u200", 3e-6), row(simulated.PIPELINE, "fpga:u200", 1e-6)
    here = row("learner.step", "native", 2e-6)
    mapped = replace(pipelined, mapped=True)
    assert predict.used_times([here, core, mapped]) == {
        ("learner.step", "native"): here,
        (simulated.PIPELINE, "fpga:u200"): mapped,
        ("learner.step", "fpga:u200"): mapped,
    }
    slower = replace(pipelined, mapped=False)
    for rows in (
        [here, core, slower],
        [here, core, replace(pipelined, value=None, status="not_run", reason="needs tools")],
        [here, core],
    ):
        assert predict.used_times(rows)["learner.step", "fpga:u200"] == core
    rows = [*(row(name, "fpga:u200", 1e-7) for name in ("sum_tree.sample", "sum_tree.update")), core, mapped]
    made = simulated.predictions(workloads.load("cartpole-ddpg"), 256, rows, "fpga:u200")
    (chosen,) = [r for r in made if r.strategy == "map-tpds23" and r.chosen]
    assert chosen.value == pytest.approx(1e6)


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
    assert [r.pipelines for r in timed] == [1, 2, 4, 8]
    assert {r.provenance for r in timed} == {Provenance.SIMULATED}
    assert (too_many.status, too_many.value) == ("not_run", None)
    assert "16 would need " in too_many.reason
    assert "flip-flops of " in too_many.reason
    own = simulated._pipeline_row(item, 256, "fpga:u200")
    assert own.value in [r.value for r in timed]
    fastest = min(timed, key=lambda r: r.cycles)
    assert fastest.value is not None
    assert own.value is not None
    assert fastest.value < own.value, "MAP's formula adds the pipelines' gradients one after another"
    replay = [row(name, "fpga:u200", 1e-7) for name in ("sum_tree.sample", "sum_tree.update")]
    core = row("learner.step", "fpga:u200", 1.0)
    every = [replace(r, workload=item.name) for r in (*replay, core, own, *timed)]
    made = simulated.predictions(item, 256, every, "fpga:u200")
    (chosen,) = [r for r in made if r.who == "pearl24" and r.chosen]
    assert details_of(chosen)["settings"] == {"streams": fastest.pipelines}
    assert chosen.terms_s["learner"] == fastest.value


def test_a_batch_that_the_core_learns_has_no_streams_for_mappings() -> None:
    on_pipelines = row("learner.pipeline_step in 2 streams", "fpga:u200", 1e-6)
    for mapped in (None, False):
        times = predict.used_times([replace(on_pipelines, mapped=mapped)])
        assert times.keys() == {(on_pipelines.primitive, "fpga:u200")}
    assert list(simulated.pipelined_rows(workloads.load("hopper-ppo"), 64, "fpga:u200")) == []


def test_an_algorithm_that_map_has_no_pipeline_for_has_no_row_of_one() -> None:
    found = simulated._pipeline_row(workloads.load("hopper-ppo"), 64, "fpga:u200")
    assert (found.status, found.value, found.primitive) == ("not_run", None, simulated.PIPELINE)
    assert found.reason.startswith("needs ")
    assert details_of(found) == {"target": "fpga:u200"}


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
    assert (found.cycles, found.provenance) == (20, provenance)
