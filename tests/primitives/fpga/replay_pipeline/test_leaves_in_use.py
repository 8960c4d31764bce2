"""A tree with fewer leaves in use than its levels have room for, beside the whole tree whose other leaves are 0."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.replay_pipeline import (
    BankedLayout,
    BankedPipeline,
    Form,
    Operation,
    PipelineLayout,
    ReplayPipeline,
)
from placerl.primitives.fpga.simulation import SimulatedRun, Simulation
from tests.primitives.fpga import restarted

FORMS = pytest.mark.parametrize("form", list(Form), ids=lambda form: form.value)
LEAF_BITS = 4
Fields = dict[str, list[int]]


def bank(fanout: int, levels: int, leaves: int = 0) -> PipelineLayout:
    return PipelineLayout(fanout, levels, LEAF_BITS, tag_bits=6, leaves=leaves)


@st.composite
def requests(draw: st.DrawFn, used: PipelineLayout | BankedLayout) -> Fields:
    """Requests for leaves in use, as fields of the smaller tree; an INSERT names a bank."""
    operation = draw(st.lists(st.sampled_from(Operation), min_size=1, max_size=30))
    fields: Fields = {"operation": [], "tag": [], "path": [], "value": []}
    for number, kind in enumerate(operation):
        bits = used.total_bits if kind is Operation.SAMPLE else LEAF_BITS
        leaf = draw(st.integers(0, used.leaves - 1))
        fields["operation"].append(kind.value)
        fields["tag"].append(number)
        fields["path"].append(int(used.path_of(np.array([leaf]))[0]))
        fields["value"].append(draw(st.just(2**bits - 1) | st.integers(0, 2**bits - 1)))
    return fields


def started(layout: PipelineLayout | BankedLayout, form: Form, last_leaf: int) -> Simulation:
    of_bank = layout.bank if isinstance(layout, BankedLayout) else layout
    block: Any = BankedPipeline if isinstance(layout, BankedLayout) else ReplayPipeline
    model = restarted.interpreted(block, layout, form)
    model.write("last_leaf", int(of_bank.path_of(np.array([last_leaf]))[0]))
    return model


def assert_same(run: SimulatedRun, whole: SimulatedRun) -> None:
    """All responses have the same bits, in the same cycles."""
    assert run.outputs.keys() == whole.outputs.keys()
    for name, found in run.outputs.items():
        expected = whole.outputs[name]
        assert {field: found[field].tolist() for field in found} == {
            field: expected[field].tolist() for field in expected
        }
        assert run.output_cycles[name].tolist() == whole.output_cycles[name].tolist()


def slow(*case: int) -> Any:
    """A case whose simulations take long to make."""
    return pytest.param(case, marks=pytest.mark.slow)


@FORMS
@pytest.mark.parametrize("case", [(2, 4, 11), (3, 3, 14), (4, 3, 37), (4, 3, 7), slow(16, 2, 35)], ids=str)
@settings(max_examples=8)
@given(data=st.data())
def test_one_pipeline_is_the_whole_one_bit_by_bit(
    form: Form, case: tuple[int, int, int], data: st.DataObject
) -> None:
    """The insertions wrap behind the last leaf in use, although the host names a later one."""
    fanout, levels, leaves = case
    used, whole = bank(fanout, levels, leaves), bank(fanout, levels)
    fields: dict[str, Any] = {**data.draw(requests(used), "requests"), "remembered": []}
    fields["remembered"] = [0] * len(fields["tag"])
    model, full = started(used, form, whole.leaves - 1), started(whole, form, leaves - 1)
    count = len(fields["tag"])
    assert_same(*(one.run({"requests": fields}, {"responses": count}) for one in (model, full)))
    every = np.arange(leaves)
    fields = dict.fromkeys(("remembered", "tag", "value"), np.zeros(leaves, np.int64))
    fields |= {"operation": np.full(leaves, Operation.GET.value), "path": whole.path_of(every)}
    assert_same(*(one.run({"requests": fields}, {"responses": leaves}) for one in (model, full)))
    assert model.read("total") == full.read("total")


@FORMS
@pytest.mark.parametrize("case", [(2, 2, 3, 5), (3, 3, 2, 4), slow(4, 4, 2, 9), slow(2, 16, 2, 19)], ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_several_pipelines_are_the_whole_ones_bit_by_bit(
    form: Form, case: tuple[int, int, int, int], data: st.DataObject
) -> None:
    """As many requests on each of S lanes: also in which cycle each of them is taken."""
    banks, fanout, levels, leaves = case
    used, whole = (BankedLayout(banks, bank(fanout, levels, count)) for count in (leaves, 0))
    model, full = started(used, form, whole.bank.leaves - 1), started(whole, form, leaves - 1)
    lanes = {f"requests_{lane}": data.draw(requests(used), f"lane {lane}") for lane in range(banks)}
    answers = tuple(f"responses_{number}" for number in range(banks))
    count = sum(len(fields["tag"]) for fields in lanes.values())
    runs = [one.run(lanes, {answers: count}) for one in (model, full)]
    assert_same(*runs)
    assert all((runs[0].input_cycles[lane] == runs[1].input_cycles[lane]).all() for lane in lanes)
    for one in (model, full):
        one.step(20)
    assert model.read("total") == full.read("total")


@FORMS
@pytest.mark.parametrize("banks", [1, 2])
def test_leaves_that_are_not_in_use_stay_0(form: Form, banks: int) -> None:
    """Updates of them change nothing, also where the numbers of their nodes are cut to the bits of those in use."""
    used = bank(4, 3, 21)
    layout = used if banks == 1 else BankedLayout(banks, used)
    model = started(layout, form, used.leaves - 1)
    paths = np.concatenate([(number << used.path_bits) + np.arange(64) for number in range(banks)])
    in_use = paths % 64 < used.leaves

    def asked(operation: Operation, value: Any) -> dict[int, int]:
        """Ask for every path; return the answers' values by their paths."""
        fields = {
            "operation": np.full(len(paths), operation.value),
            "tag": np.arange(len(paths)) % 64,
            "path": paths,
            "value": np.broadcast_to(value, len(paths)),
        }
        if banks == 1:
            fields["remembered"] = np.zeros(len(paths), np.int64)
            found = [model.run({"requests": fields}, {"responses": len(paths)}).outputs["responses"]]
        else:
            answers = tuple(f"responses_{number}" for number in range(banks))
            outputs = model.run({"requests_0": fields}, {answers: len(paths)}).outputs
            found = [outputs[name] for name in answers]
            model.step(20)
        return {
            int(path): int(value)
            for one in found
            for path, value in zip(one["path"], one["value"], strict=True)
        }

    first, second = np.arange(len(paths)) % 15 + 1, np.arange(len(paths)) % 7 + 1
    assert asked(Operation.UPDATE, first) == dict.fromkeys(paths.tolist(), 0)
    for now, value in ((first, second), (second, second)):
        expected = dict(zip(paths.tolist(), np.where(in_use, now, 0).tolist(), strict=True))
        assert model.read("total") == sum(expected.values())
        assert asked(Operation.GET, 0) == expected
        assert asked(Operation.UPDATE, value) == expected
    total = int(model.read("total"))
    prefixes = np.linspace(0, total - 1, len(paths)).astype(np.int64)
    sampled = asked(Operation.SAMPLE, prefixes)
    assert set(sampled) <= set(paths[in_use].tolist())
    assert all(value == second[paths.tolist().index(path)] for path, value in sampled.items())
