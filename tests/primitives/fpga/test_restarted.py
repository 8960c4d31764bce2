"""A simulation that is shared begins each time as a new one does."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.replay_pipeline import Form, Operation, PipelineLayout, ReplayPipeline
from tests.primitives.fpga import restarted
from tests.primitives.fpga.interpreter import interpreted

LAYOUT = PipelineLayout(fanout=3, levels=2, leaf_bits=6)


def responses(model: simulation.Simulation) -> list[list[int]]:
    """What a tree answers to insertions and then to samples, with the cycles of the answers."""
    operations = [Operation.INSERT.value] * LAYOUT.leaves + [Operation.SAMPLE.value] * 5
    count = len(operations)
    zeros = np.zeros(count, np.int64)
    fields = {
        "operation": operations,
        "remembered": zeros,
        "tag": zeros,
        "path": zeros,
        "value": np.arange(count) % 9,
    }
    model.write("last_leaf", int(LAYOUT.path_of(np.array([LAYOUT.leaves - 1]))[0]))
    run = model.run({"requests": fields}, {"responses": count})
    found = run.outputs["responses"]
    return [[*values.tolist()] for values in (found["path"], found["value"], run.output_cycles["responses"])]


@pytest.mark.parametrize("form", list(Form))
def test_a_shared_simulation_begins_as_a_new_one(form: Form) -> None:
    new = responses(interpreted(ReplayPipeline(LAYOUT, form)))
    first = restarted.interpreted(ReplayPipeline, LAYOUT, form)
    assert responses(first) == new
    first.run({"requests": {name: [1] for name in ("operation", "remembered", "tag", "path", "value")}}, {})
    again = restarted.interpreted(ReplayPipeline, LAYOUT, form)
    assert again is first
    assert again.read("total") == 0
    assert responses(again) == new
