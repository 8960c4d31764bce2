"""A replay pipeline that clears its memories: after a reset, also amid updates, it is as at first."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from primitives.fpga import simulation
from primitives.fpga.replay_pipeline import Form, Operation, PipelineLayout, ReplayPipeline
from primitives.fpga.replay_pipeline.node_memory import NodeMemory
from tests.primitives.fpga.resettable import Resettable, reset

LAYOUT = PipelineLayout(fanout=4, levels=2, leaf_bits=8, tag_bits=1)


@pytest.mark.parametrize("form", list(Form), ids=lambda form: form.value)
def test_after_a_reset_the_tree_is_empty(form: Form) -> None:
    model = simulation.interpreted(
        Resettable(ReplayPipeline(LAYOUT, form, remembers=False, clears=True)),
    )
    rng = np.random.default_rng(0)
    for _ in range(2):
        priorities, prefixes = rng.integers(1, 200, LAYOUT.leaves), np.arange(20)
        requests = {
            "operation": [Operation.UPDATE.value] * LAYOUT.leaves + [Operation.SAMPLE.value] * 20,
            "remembered": np.zeros(LAYOUT.leaves + 20, np.int64),
            "tag": np.zeros(LAYOUT.leaves + 20, np.int64),
            "path": np.concatenate([np.arange(LAYOUT.leaves), np.zeros(20, np.int64)]),
            "value": np.concatenate([priorities, prefixes * priorities.sum() // 20]),
        }
        run = model.run({"requests": requests}, {"responses": LAYOUT.leaves + 20})
        assert run.input_cycles["requests"][0] == LAYOUT.leaves
        found = run.outputs["responses"]
        assert not np.any(found["value"][: LAYOUT.leaves])  # the priorities before
        leaves = np.searchsorted(np.cumsum(priorities), requests["value"][LAYOUT.leaves :], side="right")
        np.testing.assert_array_equal(found["path"][LAYOUT.leaves :], leaves)
        assert model.read("total") == priorities.sum()
        # Updates are on their way to the last level when the reset comes.
        model.run({"requests": {name: values[:6] for name, values in requests.items()}}, {})
        reset(model)


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_every_word_is_cleared(depth: int) -> None:
    model = simulation.interpreted(Resettable(NodeMemory(width=8, depth=depth, clears=True)))
    model.step(depth)
    assert model.read("cleared") == 1
    model.write("advance", 1)
    for address in range(depth):
        model.write("address", address)
        model.step(2)
        model.write("write", 1)
        model.write("write_data", 9)
        model.step()
        model.write("write", 0)
    reset(model)
    model.step(depth)
    for address in range(depth):
        model.write("address", address)
        model.step(2)
        assert model.read("word") == 0
