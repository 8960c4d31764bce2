from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from placerl.primitives.graph.graph import Buffer, Graph, Instruction, Node, View, contiguous_strides, plan


def as_array(view: View, data: np.ndarray) -> np.ndarray:
    strides = tuple(stride * data.itemsize for stride in view.strides)
    return as_strided(data[view.offset :], view.shape, strides)


shapes = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


@given(shapes, st.data())
def test_permuted_sliced_and_broadcast_views_see_what_numpy_sees(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    base = np.arange(np.prod(shape, dtype=int))
    view, array = View(0, shape, contiguous_strides(shape)), base.reshape(shape)
    order = data.draw(st.permutations(range(len(shape))))
    view, array = view.permute(order), array.transpose(order)
    if shape:
        axis = data.draw(st.integers(0, len(shape) - 1))
        start = data.draw(st.integers(0, array.shape[axis] - 1))
        view, array = (
            view.sliced(axis, start, array.shape[axis]),
            array.take(range(start, array.shape[axis]), axis),
        )
    wider = (2, *array.shape)
    np.testing.assert_array_equal(as_array(view.broadcast(wider), base), np.broadcast_to(array, wider))
    np.testing.assert_array_equal(as_array(view.squeezed(), base), array.squeeze())


@given(shapes, st.data())
def test_reshaped_views_see_what_numpy_sees_or_need_a_copy(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    base = np.arange(np.prod(shape, dtype=int))
    order = data.draw(st.permutations(range(len(shape))))
    view, array = (
        View(0, shape, contiguous_strides(shape)).permute(order),
        base.reshape(shape).transpose(order),
    )
    sizes = [factor for size in array.shape for factor in (size, 1)]
    target = data.draw(st.sampled_from([tuple(sizes), (base.size,), (1, base.size)]))
    reshaped = view.reshaped(target)
    if reshaped is None:
        assert not np.shares_memory(array.reshape(target), base)
    else:
        np.testing.assert_array_equal(as_array(reshaped, base), array.reshape(target))


def test_broadcast_names_both_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(3,\) does not broadcast to \(2, 4\)"):
        View(0, (3,), (1,)).broadcast((2, 4))


def chain(count: int) -> Graph:
    """x -> t0 -> t1 -> ... -> the state, each a copy of 100 float32."""
    names = ["input/x", *(f"t{i}" for i in range(count)), "state/s"]
    kinds = ["input", *["temporary"] * count, "state"]
    buffers = tuple(Buffer(name, (100,), "float32", kind) for name, kind in zip(names, kinds, strict=True))
    views = [View(i, (100,), (1,)) for i in range(len(buffers))]
    copy = (Instruction("copy", (0,), "float32"),)
    nodes = tuple(Node("elementwise", (a,), (b,), copy, (1,)) for a, b in pairwise(views))
    return Graph(buffers, nodes, {})


def test_plan_shares_memory_between_temporaries_whose_lives_do_not_overlap() -> None:
    # 400 bytes take 7 lines of 64; input and state are kept, and a copy needs two temporaries at a time.
    assert plan(chain(6)).arena_bytes == 4 * 448


@given(st.integers(1, 12))
def test_plan_never_places_two_live_buffers_on_the_same_bytes(count: int) -> None:
    graph = chain(count)
    placed = plan(graph)
    for node in graph.nodes:
        source, target = (placed.offsets_bytes[v.buffer] for v in (node.inputs[0], node.outputs[0]))
        assert abs(source - target) >= 400
