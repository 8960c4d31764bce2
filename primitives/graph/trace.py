"""Trace a gradient step written in PyTorch to the step graph: `trace(step, example)`."""

import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from placerl.primitives.interrupts import whole_imports

with whole_imports():
    import torch
    from torch import fx
    from torch._decomp import core_aten_decompositions, get_decompositions
    from torch._subclasses.fake_tensor import DataDependentOutputException
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

from placerl.primitives.graph.graph import Buffer, Graph, UnsupportedOperationError
from placerl.primitives.graph.lowering import Builder, Splat, Value, dtype_name, lower
from placerl.primitives.graph.passes import StateUpdate, finish

_TORCH_FOLDER = str(Path(torch.__file__).parent)


def path_name(path: Sequence[Any]) -> str:
    """Return a pytree path as text, such as `critic_adam/mean/0.weight`.

    `primitives.algorithms.tree` gives leaves the same names.

    Args:
        path: the keys from the root to a leaf, as `torch.utils._pytree` gives them.
    """
    return "/".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path)


def leaf_names(prefix: str, tree: Any) -> list[str]:
    """Return the name of each leaf of a pytree, such as `PREFIX/critic_adam/mean/0.weight`, in the leaves' order.

    Args:
        tree: nested dicts, tuples and NamedTuples of tensors.
    """
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return [f"{prefix}/{path_name(path)}" if path else prefix for path, _ in leaves]


def _user_line() -> str:
    """Return the innermost line on the stack that belongs to the user's code."""
    frames: Iterator[tuple[types.FrameType, int]] = traceback.walk_stack(sys._getframe(1))
    return _innermost_user_line(frames)


def _innermost_user_line(frames: Iterable[tuple[types.FrameType, int]]) -> str:
    """Return the first line outside PyTorch and this module, as `file.py:12`."""
    for frame, line in frames:
        name = frame.f_code.co_filename
        if not name.startswith((_TORCH_FOLDER, "<")) and name != __file__:
            return f"{name}:{line}"
    return "unknown line"


class _SourceLines(TorchDispatchMode):
    """Records for each traced node which line of the user's code it comes from."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        mode = get_proxy_mode()
        nodes: Any = mode.tracer.graph.nodes if mode else []
        before = len(nodes)
        line = _user_line()
        result = func(*args, **(kwargs or {}))
        for node in list(nodes)[before:]:
            node.meta["user_line"] = line
        return result


def trace(step: Callable[..., Any], example: Sequence[Any]) -> Graph:
    """Trace a gradient step, with loss, backward pass and optimiser, to a static graph.

    Args:
        step: a pure function `step(state, *inputs)` of pytrees of tensors. It returns the new state first, with
            the structure of the old, and then other results: a tuple `(state, outputs, ...)` or a NamedTuple such
            as `StepResult`, whose field names become the outputs' names. Random numbers are inputs. Gradients
            must use `torch.func.grad` or `torch.autograd.grad`.
        example: `(state, *inputs)` of the shapes and dtypes to trace for; the values do not matter. The inputs
            are named by the step's parameters: `batch/reward`.

    Returns:
        The graph. Buffers are named `state/…` and after the parameters, outputs after the result's fields.

    Raises:
        UnsupportedOperationError: no backend supports an operation; the message names it and the line of the
            user's code.
        ValueError: the new state's structure, shapes or dtypes differ from the old one's.
    """
    state, *inputs = example
    parameter_names = step.__code__.co_varnames if hasattr(step, "__code__") else ()
    if getattr(step, "__self__", None) is not None:
        parameter_names = parameter_names[1:]
    groups = ["state", *(parameter_names[i + 1] if i + 1 < len(parameter_names) else f"input{i}"
                         for i in range(len(inputs)))]  # fmt: skip
    names = [name for group, tree in zip(groups, example, strict=True) for name in leaf_names(group, tree)]
    state_count = len(pytree.tree_leaves(state))
    result_names: list[str] = []

    def flat_step(leaves: list[torch.Tensor]) -> list[Any]:
        with _SourceLines():
            result = step(*pytree.tree_unflatten(leaves, structure))
        new_state, *rest = result
        fields = getattr(result, "_fields", ("state", *(f"output{i}" for i in range(len(rest)))))[1:]
        _check_state(state, new_state)
        result_names[:] = [name for field, tree in zip(fields, rest, strict=True)
                           for name in leaf_names(field, tree)]  # fmt: skip
        return [*pytree.tree_leaves(new_state), *pytree.tree_leaves(rest)]

    leaves, structure = pytree.tree_flatten(tuple(example))
    module = _traced_module(flat_step, leaves)
    builder = Builder()
    values = [
        builder.add_buffer(
            Buffer(name, tuple(leaf.shape), dtype_name(leaf.dtype), "state" if i < state_count else "input")
        )
        for i, (name, leaf) in enumerate(zip(names, leaves, strict=True))
    ]
    results = _lower_module(builder, module, values)
    updates = []
    for i, value in enumerate(results[:state_count]):
        builder.source = ""
        updates.append(StateUpdate(i, builder.materialised(value)))
    outputs = {
        name: builder.materialised(value)
        for name, value in zip(result_names, results[state_count:], strict=True)
    }
    return finish(builder.buffers, builder.nodes, updates, outputs)


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Return how operations become core ATen operations. PyTorch looks through all its operations to say so."""
    return {**core_aten_decompositions(), **get_decompositions([torch.ops.aten.native_layer_norm])}


def _traced_module(flat_step: Callable[..., Any], leaves: list[torch.Tensor]) -> fx.GraphModule:
    """Trace the step to core ATen operations, without mutation."""
    # Fake tensors turn control flow on data into an error; tensors captured by the step's closure become
    # constants.
    traced = make_fx(
        torch.func.functionalize(flat_step),
        _decompositions(),
        tracing_mode="fake",
        _allow_non_fake_inputs=True,
    )
    try:
        return traced(leaves)
    except (GuardOnDataDependentSymNode, DataDependentOutputException) as error:
        line = _innermost_user_line(reversed(list(traceback.walk_tb(error.__traceback__))))
        raise UnsupportedOperationError(
            f"{line}: control flow or shapes depend on data; a step graph is static"
        ) from error


def _check_state(old: Any, new: Any) -> None:
    (old_leaves, old_structure), (new_leaves, new_structure) = (
        pytree.tree_flatten(old),
        pytree.tree_flatten(new),
    )
    if old_structure != new_structure:
        raise ValueError(f"state: the step returned the structure {new_structure}; allowed: {old_structure}")
    for name, a, b in zip(leaf_names("state", old), old_leaves, new_leaves, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            found, allowed = (f"{tuple(t.shape)} {t.dtype}" for t in (b, a))
            raise ValueError(f"{name}: the step returned {found}; allowed: {allowed}")


def _lower_module(builder: Builder, module: fx.GraphModule, values: list[Any]) -> list[Value]:
    """Add the traced operations; returns the values of the module's outputs."""
    known: dict[fx.Node, Any] = {}
    arguments = iter(values)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            known[node] = next(arguments)
        elif node.op == "get_attr":
            tensor = getattr(module, node.target).detach()
            number = tensor.ndim == 0
            known[node] = (
                Splat(tensor.item(), (), dtype_name(tensor.dtype))
                if number
                else builder.constant(tensor.numpy())
            )
        elif node.op == "output":
            return list(fx.map_arg(node.args[0], known.__getitem__))
        else:
            known[node] = _lower_call(builder, node, known)
    raise AssertionError("a traced module has an output")


def _lower_call(builder: Builder, node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    args = fx.map_arg(node.args, known.__getitem__)
    kwargs = fx.map_arg(node.kwargs, known.__getitem__)
    if not isinstance(node.target, torch._ops.OpOverload):  # operator.getitem
        return node.target(*args, **kwargs)  # type: ignore[operator]
    name = node.target._schema.name.removeprefix("aten::")
    builder.source = node.meta.get("user_line", "unknown line")
    result = node.meta["val"]
    first = result[0] if isinstance(result, tuple | list) else result
    first = next(t for t in result if t is not None) if first is None else first
    try:
        return lower(builder, name, dtype_name(first.dtype), args, dict(kwargs))
    except UnsupportedOperationError as error:
        raise UnsupportedOperationError(f"{node.target} at {builder.source}: {error}") from None
    except TypeError as error:
        # The rule does not know this form of the operation's arguments.
        raise UnsupportedOperationError(f"{node.target} at {builder.source}: this form: {error}") from error
