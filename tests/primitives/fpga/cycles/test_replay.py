"""Cycles of the replay pipeline, in closed form and simulated: equal to the cycle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import replay
from placerl.primitives.fpga.replay_pipeline import (
    BankedLayout,
    BankedPipeline,
    Form,
    Operation,
    PipelineLayout,
    ReplayPipeline,
)
from tests.primitives.fpga import restarted
from tests.primitives.fpga.cycles.replay import banked_cycles_at_least

FORMS = pytest.mark.parametrize("form", list(Form), ids=lambda form: form.value)


def timing_of(form: Form, operation: Operation, fanout: int) -> replay.LevelTiming:
    samples = operation is Operation.SAMPLE
    return replay.level_timing(fanout=fanout, narrow=form is Form.NARROW, samples=samples)


@FORMS
@settings(max_examples=15)
@given(data=st.data())
def test_a_batch_on_one_pipeline(form: Form, data: st.DataObject) -> None:
    fanout, levels = data.draw(st.sampled_from([(2, 3), (3, 2), (4, 1), (5, 3), (8, 2), (9, 1)]))
    layout = PipelineLayout(fanout, levels, leaf_bits=8)
    model = restarted.interpreted(ReplayPipeline, layout, form)
    model.write("last_leaf", int(layout.path_of(np.array([layout.leaves - 1]))[0]))
    for operation in (Operation.INSERT, Operation.SAMPLE, Operation.UPDATE, Operation.GET):
        count = data.draw(st.integers(1, 12), "requests")
        fields = {
            "operation": [operation.value] * count,
            "remembered": [0] * count,
            "tag": [0] * count,
            "path": [0] * count,
            "value": data.draw(st.lists(st.integers(0, 255), min_size=count, max_size=count)),
        }
        run = model.run({"requests": fields}, {"responses": count})
        timing = timing_of(form, operation, fanout)
        assert run.cycles == replay.pipeline_cycles(count, levels=levels, timing=timing)


@FORMS
@settings(max_examples=8)
@given(data=st.data())
def test_reads_on_banks_one_lane_to_each(form: Form, data: st.DataObject) -> None:
    """No lane is blocked: what is left is fill, imbalance and, after writes, the change of phase."""
    banks, fanout = data.draw(st.sampled_from([(2, 2), (2, 4), (3, 3), (4, 2)]))
    layout = BankedLayout(banks, PipelineLayout(fanout, 1, leaf_bits=4, tag_bits=4))
    model = restarted.interpreted(BankedPipeline, layout, form)
    loads = data.draw(st.lists(st.integers(1, 9), min_size=banks, max_size=banks), "loads")
    responses = tuple(f"responses_{bank}" for bank in range(banks))
    after_writes = False
    for operation in (Operation.UPDATE, Operation.SAMPLE, Operation.SAMPLE):
        inputs = {}
        for bank, load in enumerate(loads):
            leaf = np.full(load, bank * layout.bank.leaves)
            inputs[f"requests_{bank}"] = {
                "operation": np.full(load, operation.value),
                "tag": np.zeros(load, np.int64),
                "path": layout.path_of(leaf),
                # Each bank's first leaf holds 1: prefix b is in bank b.
                "value": np.full(load, 1 if operation is Operation.UPDATE else bank),
            }
        run = model.run(inputs, {responses: sum(loads)})
        model.step(10)
        if operation is Operation.SAMPLE:
            timing = timing_of(form, operation, fanout)
            terms = replay.difference_terms(
                run.cycles, loads, levels=1, timing=timing, phase_changed=after_writes
            )
            assert terms["blocked lanes"] == 0
            at_least = banked_cycles_at_least(loads, levels=1, timing=timing)
            assert run.cycles == at_least + (replay.PHASE_CHANGE_CYCLES if after_writes else 0)
        after_writes = operation is Operation.UPDATE


def test_the_papers_formulas() -> None:
    assert replay.map_update_cycles(256, banks=4) == 64
