"""The replay pipeline beside its golden model: any mix of requests, however close, in both forms."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.replay_pipeline import Form, Operation, PipelineLayout, ReplayPipeline
from tests.primitives.fpga import restarted
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.replay_pipeline.golden import GoldenTree, Request, Response
from tests.primitives.fpga.resettable import Resettable, reset

FORMS = pytest.mark.parametrize("form", list(Form), ids=lambda form: form.value)
SMALL_LAYOUT = PipelineLayout(fanout=4, levels=2, leaf_bits=8, tag_bits=1)
Simulator = Callable[..., simulation.Simulation]


def compiled(block: Callable[..., Any], *arguments: Any) -> simulation.Simulation:
    return simulation.compiled(block(*arguments))


def started(simulator: Simulator, layout: PipelineLayout, form: Form, capacity: int) -> simulation.Simulation:
    model = simulator(ReplayPipeline, layout, form)
    model.write("last_leaf", int(layout.path_of(np.array([capacity - 1]))[0]))
    return model


def ask(
    model: simulation.Simulation, layout: PipelineLayout, requests: list[Request], **run_options: Any
) -> tuple[list[Response], simulation.SimulatedRun]:
    fields = {
        "operation": [request.operation.value for request in requests],
        "remembered": np.zeros(len(requests), np.int64),
        "tag": np.arange(len(requests)) % 2**layout.tag_bits,
        "path": layout.path_of(np.array([request.leaf for request in requests], np.int64)),
        "value": [request.value for request in requests],
    }
    run = model.run(
        {"requests": fields}, {"responses": len(requests)}, limit_cycles=200_000_000, **run_options
    )
    found = run.outputs["responses"]
    assert found["operation"].tolist() == fields["operation"]
    assert found["tag"].tolist() == fields["tag"].tolist()
    leaves = layout.leaf_of(found["path"])
    return [
        Response(int(leaf), int(value), bool(empty))
        for leaf, value, empty in zip(leaves, found["value"], found["empty"], strict=True)
    ], run


@st.composite
def request_lists(draw: st.DrawFn, layout: PipelineLayout) -> list[Request]:
    # Few leaves, so that requests meet on their paths; priorities of 0 and of the greatest sum.
    # Also leaves that are not in use, if there are any.
    leaves = st.integers(0, layout.fanout**layout.levels - 1) | st.integers(0, min(3, layout.leaves - 1))
    priorities = st.sampled_from([0, 0, 1, 2**layout.leaf_bits - 1]) | st.integers(0, 2**layout.leaf_bits - 1)
    prefixes = st.integers(0, 2**layout.total_bits - 1) | st.integers(0, 2**layout.leaf_bits)
    request = st.one_of(
        st.builds(Request, st.just(Operation.SAMPLE), st.just(0), prefixes),
        st.builds(Request, st.just(Operation.GET), leaves, st.just(0)),
        st.builds(Request, st.just(Operation.UPDATE), leaves, priorities),
        st.builds(Request, st.just(Operation.INSERT), st.just(0), priorities),
    )
    return draw(st.lists(request, min_size=1, max_size=40))


LAYOUTS = [
    PipelineLayout(fanout=2, levels=1, leaf_bits=4),
    PipelineLayout(fanout=2, levels=4, leaf_bits=3),
    PipelineLayout(fanout=3, levels=3, leaf_bits=5),
    PipelineLayout(fanout=4, levels=2, leaf_bits=8, tag_bits=3),
    PipelineLayout(fanout=7, levels=2, leaf_bits=6),
    PipelineLayout(fanout=16, levels=1, leaf_bits=8),
    PipelineLayout(fanout=2, levels=4, leaf_bits=3, leaves=9),
    PipelineLayout(fanout=3, levels=3, leaf_bits=5, leaves=10),
    PipelineLayout(fanout=4, levels=3, leaf_bits=5, leaves=6),
    PipelineLayout(fanout=4, levels=3, leaf_bits=5, leaves=1),
]


@FORMS
@pytest.mark.parametrize("leaves", [1, 2, 5])
def test_a_write_to_a_leaf_that_is_not_in_use_keeps_the_write_before_it(form: Form, leaves: int) -> None:
    """Its node is not in the memory, where another node's write is still on its way."""
    layout = PipelineLayout(fanout=4, levels=3, leaf_bits=5, leaves=leaves)
    writes = [
        Request(Operation.UPDATE, leaf, value) for leaf, value in ((0, 1), (leaves, 7), (63, 3), (4, 0))
    ]
    requests = [*writes, *(Request(Operation.SAMPLE, 0, prefix) for prefix in range(2))] * 2
    model = started(restarted.interpreted, layout, form, leaves)
    found, _ = ask(model, layout, requests)
    assert found == GoldenTree(layout, leaves).respond_all(requests)


@FORMS
@settings(max_examples=25)
@given(data=st.data())
def test_any_requests_one_behind_the_other(form: Form, data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from(LAYOUTS), "layout")
    capacity = data.draw(st.integers(1, layout.fanout**layout.levels), "capacity")
    requests = data.draw(request_lists(layout), "requests")
    gaps = data.draw(
        st.lists(st.sampled_from([0, 0, 0, 1, 3]), min_size=len(requests), max_size=len(requests))
    )
    ready = [*data.draw(st.lists(st.booleans(), max_size=5)), True]
    model = started(restarted.interpreted, layout, form, capacity)
    golden = GoldenTree(layout, capacity)
    found, _ = ask(model, layout, requests, gaps={"requests": gaps}, ready={"responses": ready})
    assert found == golden.respond_all(requests)
    assert model.read("total") == sum(golden.priorities)


@FORMS
def test_the_path_of_a_sample_is_remembered_for_its_update(form: Form) -> None:
    layout = PipelineLayout(fanout=3, levels=3, leaf_bits=6, tag_bits=4)
    model = started(restarted.interpreted, layout, form, layout.leaves)
    golden = GoldenTree(layout)
    fill = [Request(Operation.INSERT, value=leaf % 5) for leaf in range(layout.leaves)]
    assert ask(model, layout, fill)[0] == golden.respond_all(fill)
    total = sum(golden.priorities)
    samples = [
        Request(Operation.SAMPLE, value=prefix) for prefix in np.linspace(0, total - 1, 16).astype(int)
    ]
    sampled, _ = ask(model, layout, samples)
    assert sampled == golden.respond_all(samples)
    fields = {
        "operation": np.full(16, Operation.UPDATE.value),
        "remembered": np.ones(16, np.int64),
        "tag": np.arange(16),
        "path": np.zeros(16, np.int64),  # not looked at
        "value": np.arange(16),
    }
    run = model.run({"requests": fields}, {"responses": 16})
    assert layout.leaf_of(run.outputs["responses"]["path"]).tolist() == [s.leaf for s in sampled]
    golden.respond_all([Request(Operation.UPDATE, s.leaf, i) for i, s in enumerate(sampled)])
    reads = [Request(Operation.GET, leaf) for leaf in range(layout.leaves)]
    assert ask(model, layout, reads)[0] == golden.respond_all(reads)


@FORMS
@pytest.mark.parametrize("fanout", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_a_larger_tree_in_verilator(form: Form, fanout: int) -> None:
    layout = PipelineLayout(fanout=fanout, levels=4, leaf_bits=12, tag_bits=10)
    rng = np.random.default_rng(fanout)
    model = started(compiled, layout, form, 200)
    golden = GoldenTree(layout, 200)
    for _ in range(3):
        operations = [Operation(int(o)) for o in rng.integers(0, 4, 700)]
        scale = max(2 * sum(golden.priorities), 1)
        requests = [
            Request(
                operation,
                int(rng.integers(layout.leaves)),
                int(rng.integers(scale if operation is Operation.SAMPLE else 2**12)),
            )
            for operation in operations
        ]
        assert ask(model, layout, requests)[0] == golden.respond_all(requests)
        assert model.read("total") == sum(golden.priorities)


def test_wrong_layouts_are_refused() -> None:
    with pytest.raises(ValueError, match="fanout: found 1; allowed: 2 to 256"):
        PipelineLayout(fanout=1, levels=2, leaf_bits=8)
    with pytest.raises(ValueError, match="leaf_bits: found 40, 72 at the root"):
        PipelineLayout(fanout=16, levels=8, leaf_bits=40)
    for leaves in (-1, 65):
        with pytest.raises(ValueError, match=f"leaves: found {leaves}; allowed: 1 to 64, or 0 for all"):
            PipelineLayout(fanout=4, levels=3, leaf_bits=8, leaves=leaves)


def test_sums_and_memories_are_of_the_leaves_in_use() -> None:
    whole = PipelineLayout(fanout=16, levels=5, leaf_bits=32)
    assert (whole.leaves, whole.is_whole, "leaves" in whole.sizes) == (16**5, True, False)
    used = PipelineLayout(fanout=16, levels=5, leaf_bits=32, leaves=250_000)
    assert PipelineLayout(**used.sizes) == used != whole == PipelineLayout(**whole.sizes)
    assert [used.nodes(level) for level in range(6)] == [1, 4, 62, 977, 15_625, 250_000]
    assert used.total_bits == 32 + 18
    assert [used.sum_bits(level) - whole.sum_bits(level) for level in range(6)] == [-2, 0, 0, 0, 0, 0]


@given(st.integers(2, 256), st.integers(1, 4))
def test_paths_and_leaves(fanout: int, levels: int) -> None:
    layout = PipelineLayout(fanout, levels, leaf_bits=1)
    leaves = np.unique(np.linspace(0, layout.leaves - 1, 100).astype(np.int64))
    paths = layout.path_of(leaves)
    assert layout.leaf_of(paths).tolist() == leaves.tolist()
    assert (paths >= 0).all()
    assert (paths < 2**layout.path_bits).all()
    if fanout & (fanout - 1) == 0:
        assert paths.tolist() == leaves.tolist()


@pytest.mark.parametrize(
    ("form", "layout"),
    [
        *((form, SMALL_LAYOUT) for form in Form),
        (Form.WIDE, replace(SMALL_LAYOUT, leaves=5)),
        (Form.NARROW, PipelineLayout(fanout=16, levels=2, leaf_bits=8, tag_bits=1, leaves=17)),
    ],
    ids=str,
)
def test_after_a_reset_the_tree_is_empty(form: Form, layout: PipelineLayout) -> None:
    """Also if updates are on their way when the reset comes, and if a level has more words to clear than leaves."""
    model = interpreted(
        Resettable(ReplayPipeline(layout, form, remembers=False, clears=True)),
    )
    rng, count = np.random.default_rng(0), layout.leaves
    for _ in range(2):
        priorities, prefixes = rng.integers(1, 200, count), np.arange(20)
        requests = {
            "operation": [Operation.UPDATE.value] * count + [Operation.SAMPLE.value] * 20,
            "remembered": np.zeros(count + 20, np.int64),
            "tag": np.zeros(count + 20, np.int64),
            "path": np.concatenate([np.arange(count), np.zeros(20, np.int64)]),
            "value": np.concatenate([priorities, prefixes * priorities.sum() // 20]),
        }
        run = model.run({"requests": requests}, {"responses": count + 20})
        assert run.input_cycles["requests"][0] == count
        found = run.outputs["responses"]
        assert not np.any(found["value"][:count])  # the priorities before
        leaves = np.searchsorted(np.cumsum(priorities), requests["value"][count:], side="right")
        np.testing.assert_array_equal(found["path"][count:], leaves)
        assert model.read("total") == priorities.sum()
        model.run({"requests": {name: values[:6] for name, values in requests.items()}}, {})
        reset(model)
