"""Sub-tree pipelines side by side: what reads and writes of many lanes give, whatever the timing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.replay_pipeline import (
    BankedLayout,
    BankedPipeline,
    Form,
    Operation,
    PipelineLayout,
)
from tests.primitives.fpga import restarted
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.replay_pipeline.golden import BankedGoldenTree, Request, Response

FORMS = pytest.mark.parametrize("form", list(Form), ids=lambda form: form.value)
PLACE_BITS = 10  # of a tag: a request's place in its lane; the lane's number is above
LAYOUTS = [
    BankedLayout(2, PipelineLayout(2, 2, leaf_bits=4, tag_bits=13)),
    BankedLayout(3, PipelineLayout(3, 1, leaf_bits=4, tag_bits=13)),
    BankedLayout(4, PipelineLayout(4, 1, leaf_bits=6, tag_bits=13)),
]


def assert_golden(
    model: simulation.Simulation,
    layout: BankedLayout,
    golden: BankedGoldenTree,
    lanes: list[list[Request]],
    **options: Any,
) -> simulation.SimulatedRun:
    """The responses are the golden tree's for the requests in the order in which they were taken."""
    inputs = {
        f"requests_{lane}": {
            "operation": [request.operation.value for request in requests],
            "tag": (lane << PLACE_BITS) + np.arange(len(requests)),
            "path": layout.path_of(np.array([request.leaf for request in requests], np.int64)),
            "value": [request.value for request in requests],
        }
        for lane, requests in enumerate(lanes)
    }
    banks = tuple(f"responses_{bank}" for bank in range(layout.banks))
    run = model.run(inputs, {banks: sum(map(len, lanes))}, limit_cycles=1_000_000, **options)
    found = {}
    for number, bank in enumerate(banks):
        out = run.outputs[bank]
        leaves = layout.leaf_of(out["path"])
        assert (leaves // layout.bank.leaves == number).all()
        for tag, leaf, value, empty in zip(out["tag"], leaves, out["value"], out["empty"], strict=True):
            found[divmod(int(tag), 1 << PLACE_BITS)] = Response(int(leaf), int(value), bool(empty))
    taken = sorted(
        (int(cycle), lane, place)
        for lane in range(len(lanes))
        for place, cycle in enumerate(run.input_cycles[f"requests_{lane}"])
    )
    assert found == {(lane, place): golden.respond(lanes[lane][place]) for _, lane, place in taken}
    return run


@st.composite
def lane_lists(draw: st.DrawFn, layout: BankedLayout) -> list[list[Request]]:
    """A leaf is written by one lane only, and a bank is inserted into by one lane only: else the order is open."""
    lists = []
    for lane in range(layout.banks):
        own = st.integers(0, (layout.leaves - 1 - lane) // layout.banks).map(
            lambda i, lane=lane: i * layout.banks + lane
        )
        priority = st.sampled_from([0, 0, 1]) | st.integers(0, 2**layout.bank.leaf_bits - 1)
        request = st.one_of(
            st.builds(
                Request, st.just(Operation.SAMPLE), st.just(0), st.integers(0, 2**layout.total_bits - 1)
            ),
            st.builds(Request, st.just(Operation.GET), st.integers(0, layout.leaves - 1), st.just(0)),
            st.builds(Request, st.just(Operation.UPDATE), own, priority),
        )
        lists.append(draw(st.lists(request, max_size=12)))
    return lists


@FORMS
@settings(max_examples=10)
@given(data=st.data())
def test_any_requests_of_all_lanes(form: Form, data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from(LAYOUTS), "layout")
    lanes = data.draw(lane_lists(layout), "lanes")
    gaps = {
        f"requests_{lane}": data.draw(
            st.lists(st.sampled_from([0, 0, 1, 7]), min_size=len(requests), max_size=len(requests))
        )
        for lane, requests in enumerate(lanes)
    }
    ready = {
        f"responses_{bank}": [*data.draw(st.lists(st.booleans(), max_size=3)), True]
        for bank in range(layout.banks)
    }
    golden = BankedGoldenTree(layout)
    model = restarted.interpreted(BankedPipeline, layout, form)
    model.write("last_leaf", int(layout.bank.path_of(np.array([layout.bank.leaves - 1]))[0]))
    assert_golden(model, layout, golden, lanes, gaps=gaps, ready=ready)
    model.step(20)
    assert model.read("total") == sum(golden.priorities)


@FORMS
def test_inserts_take_turns_in_the_bank_they_name(form: Form) -> None:
    layout = BankedLayout(2, PipelineLayout(3, 1, leaf_bits=5, tag_bits=13))
    golden = BankedGoldenTree(layout)
    model = interpreted(BankedPipeline(layout, form))
    model.write("last_leaf", 2)
    lanes = [[Request(Operation.INSERT, lane * 3, 1 + i + 8 * lane) for i in range(5)] for lane in range(2)]
    assert_golden(model, layout, golden, lanes)
    assert golden.priorities == [4, 5, 3, 12, 13, 11]
    lanes = [[Request(Operation.GET, leaf) for leaf in range(6)], []]
    assert_golden(model, layout, golden, lanes)


@FORMS
def test_the_paths_of_samples_are_remembered_for_their_updates(form: Form) -> None:
    """Samples of all lanes end in all banks; their updates name the tags alone, in another order."""
    layout = BankedLayout(3, PipelineLayout(2, 2, leaf_bits=4, tag_bits=5))
    model = restarted.interpreted(BankedPipeline, layout, form, remembers=True)
    banks = tuple(f"responses_{bank}" for bank in range(layout.banks))

    def ask(operation: Operation, tags: Any, leaves: Any, values: Any, remembered: int = 0) -> dict[int, int]:
        """Send a request for each tag on lane tag % 3; return the leaves by tag."""
        fields = {
            "operation": np.full(len(tags), operation.value),
            "remembered": np.full(len(tags), remembered),
            "tag": tags,
            "path": layout.path_of(leaves),
            "value": values,
        }
        inputs = {
            f"requests_{lane}": {name: field[tags % 3 == lane] for name, field in fields.items()}
            for lane in range(3)
        }
        run = model.run(inputs, {banks: len(tags)})
        model.step(10)
        pairs = [(run.outputs[bank]["tag"], layout.leaf_of(run.outputs[bank]["path"])) for bank in banks]
        return {int(tag): int(leaf) for found in pairs for tag, leaf in zip(*found, strict=True)}

    leaves, tags, rng = np.arange(layout.leaves), np.arange(24), np.random.default_rng(0)
    ask(Operation.UPDATE, leaves, leaves, np.full(layout.leaves, 2))
    for _ in range(2):
        prefixes = rng.integers(0, int(model.read("total")), len(tags))
        sampled = ask(Operation.SAMPLE, tags, np.zeros_like(tags), prefixes)
        order = rng.permutation(tags)
        assert ask(Operation.UPDATE, order, np.zeros_like(tags), np.full(len(tags), 3), 1) == sampled
        assert {leaf // layout.bank.leaves for leaf in sampled.values()} == {0, 1, 2}


@pytest.mark.slow
def test_many_requests_in_verilator() -> None:
    layout = BankedLayout(4, PipelineLayout(4, 3, leaf_bits=12, tag_bits=13))
    rng = np.random.default_rng(0)
    golden = BankedGoldenTree(layout)
    model = simulation.compiled(BankedPipeline(layout))
    model.write("last_leaf", layout.bank.leaves - 1)
    for phase in range(6):
        writes = phase % 3 == 0
        lanes = [
            [
                Request(
                    Operation.UPDATE,
                    int(rng.integers(layout.leaves // 4)) * 4 + lane,
                    int(rng.integers(2**12)),
                )
                if writes or (phase == 5 and rng.random() < 0.5)
                else Request(Operation.SAMPLE, value=int(rng.integers(2**19)))
                for _ in range(500)
            ]
            for lane in range(4)
        ]
        assert_golden(model, layout, golden, lanes)
