"""The learner on any OpenCL device: it runs a step graph as a sequence of kernels.

All data are in one buffer of the device's memory, the arena.
"""

import warnings
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.device import opencl_runtime
from placerl.primitives.graph.executable import Array, Executable, require_supported, with_dense_outputs
from placerl.primitives.graph.graph import ALIGNMENT_BYTES, ITEM_BYTES, Graph, plan
from placerl.primitives.learner.base import Learner
from placerl.primitives.learner.opencl import source
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.device import DeviceBatch
from placerl.primitives.replay.device.packed_rows import Place


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return opencl_runtime.unavailable_reason()


class OpenclExecutable(OwnProcess, Executable):
    """Runs step graphs as OpenCL kernels on one buffer, the arena, which begins with the variants' shared state.

    It belongs to the process that created it, as the OpenCL runtime's threads do.
    """

    def __init__(self, graphs: Mapping[str, Graph], *, device: str | int = "cpu") -> None:
        """Place the buffers, and build the kernels.

        Args:
            graphs: by variant.
            device: a position in the list of devices, a part of a name, or "cpu" for the first CPU.

        Raises:
            UnsupportedOperationError: the device lacks an operation or a dtype; the message names the user's
                line.
            ValueError: there is no such device.
        """
        OwnProcess.__init__(self)
        Executable.__init__(self, graphs)
        self.device = opencl_runtime.choose_for_learner(device)
        self._opencl = opencl_runtime.load()
        has_double = bool(self.device.double_fp_config)
        dtypes = tuple(dtype for dtype in source.TYPES if has_double or dtype != "float64")
        for graph in graphs.values():
            require_supported(
                graph, "opencl", kinds=source.KINDS, operations=source.OPERATIONS, dtypes=dtypes
            )
        self._graphs = {variant: with_dense_outputs(graph) for variant, graph in graphs.items()}
        self._place()
        context = opencl_runtime.context(self.device)
        self._queue = self._opencl.CommandQueue(context)
        self._arena = self._opencl.Buffer(context, self._opencl.mem_flags.READ_WRITE, self._arena_bytes)
        self._fill(0, self._arena_bytes)
        for variant, graph in self._graphs.items():
            for i, buffer in graph.of_kind("constant"):
                self._upload(self._offsets[variant][i], np.array(buffer.values, buffer.dtype))
        self._launches = self._built(context)

    def _place(self) -> None:
        """Return the offsets of each variant's buffers; all variants have the state at the same place."""
        self._offsets: dict[str, list[int]] = {}
        self._arena_bytes = ALIGNMENT_BYTES  # of `source.OVERFLOWED`
        self._state_offsets: dict[str, int] = {}
        for variant, graph in self._graphs.items():
            placed = plan(graph)
            offsets = [self._arena_bytes + offset for offset in placed.offsets_bytes]
            for i, buffer in graph.of_kind("state"):
                offsets[i] = self._state_offsets.setdefault(buffer.name, offsets[i])
            self._offsets[variant] = offsets
            self._arena_bytes += placed.arena_bytes

    def _built(self, context: Any) -> dict[str, list[tuple[Any, tuple[int, ...], tuple[int, ...]]]]:
        """Return each variant's kernels with their arguments set, in order; equal kernels are built once."""
        names: dict[str, str] = {}
        sources: list[str] = []
        planned: dict[str, list[tuple[str, source.Kernel]]] = {}
        for variant, graph in self._graphs.items():
            planned[variant] = []
            for node in graph.nodes:
                for kernel in source.kernels(node, graph.buffers):
                    key = kernel.source("kernel")
                    if key not in names:
                        names[key] = f"{node.kind}_{len(names)}"
                        sources.append(kernel.source(names[key]))
                    planned[variant].append((names[key], kernel))
        with warnings.catch_warnings():
            # Some compilers warn that they succeeded.
            warnings.simplefilter("ignore", self._opencl.CompilerWarning)
            text = source.PRELUDE + "\n".join(sources)
            # As the native executor has it: `native/subnormals.hpp` says why.
            program = self._opencl.Program(context, text).build(["-cl-denorms-are-zero"])
        launches: dict[str, list[tuple[Any, tuple[int, ...], tuple[int, ...]]]] = {}
        for variant, kernels in planned.items():
            buffers, offsets = self._graphs[variant].buffers, self._offsets[variant]
            launches[variant] = []
            for name, kernel in kernels:
                made = self._opencl.Kernel(program, name)
                places = (source.byte_offset(view, buffers, offsets) for view in kernel.views)
                made.set_args(self._arena, *map(np.int64, places))
                launches[variant].append((made, kernel.work_items, kernel.work_group))
        return launches

    def _fill(self, offset: int, size_bytes: int) -> None:
        self._opencl.enqueue_fill_buffer(self._queue, self._arena, np.uint8(0), offset, size_bytes)

    def _upload(self, offset: int, value: Array) -> None:
        if value.size:
            self._opencl.enqueue_copy(
                self._queue, self._arena, np.ascontiguousarray(value), dst_offset=offset, is_blocking=False
            )

    def _download(self, offset: int, shape: tuple[int, ...], dtype: str) -> Array:
        value = np.empty(shape, dtype)
        self._opencl.enqueue_copy(self._queue, value, self._arena, src_offset=offset)
        return value

    def state(self) -> dict[str, Array]:
        """Return copies of the state's arrays (leaves) on the host, by name."""
        self._check_process()
        return {
            name: self._download(self._state_offsets[name], buffer.shape, buffer.dtype)
            for name, buffer in self.state_buffers.items()
        }

    def overflowed(self) -> bool:
        """Return whether one of Adam's second moments has become NaN or infinite since the last call."""
        self._check_process()
        found = bool(self._download(0, (), source.OVERFLOWED.name))
        if found:
            self._fill(0, source.OVERFLOWED.itemsize)
        return found

    def write_state(self, name: str, value: Array) -> None:
        """Set one array (leaf) of the learner's state.

        Args:
            name: name of the state's buffer, such as `state/actor/0.weight`.
            value: the new values, in the buffer's shape.
        """
        self._check_process()
        buffer = self.state_buffers[name]
        self._upload(self._state_offsets[name], np.asarray(value, buffer.dtype))
        self._queue.finish()

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step, and return copies of the graph's outputs on the host, by name.

        Args:
            variant: the kind of gradient step, a key of `graphs`.
            inputs: each input buffer's array by its name, such as `batch/reward`.
        """
        self._check_process()
        for position, value in self.checked_inputs(variant, inputs):
            self._upload(self._offsets[variant][position], value)
        return self._run(variant)

    @property
    def place(self) -> Hashable:
        """An identifier of the memory of this OpenCL device, in which `step_on` reads batches."""
        return "opencl", self.device

    def step_on(self, variant: str, inputs: Mapping[str, Array], batch: DeviceBatch) -> dict[str, Array]:
        """Run one gradient step on a batch in the device's memory, and return copies of the outputs by name.

        Args:
            variant: the kind of gradient step, a key of `graphs`.
            inputs: the inputs that are not columns of the batch, by name.
            batch: the columns of the inputs `batch/NAME`.

        Returns:
            Arrays on the host.
        """
        self._check_process()
        graph, offsets = self._graphs[variant], self._offsets[variant]
        named = {f"batch/{name}": name for name in batch.fields}
        for position, value in self.checked_inputs(variant, inputs, named):
            self._upload(offsets[position], value)
        places = {
            named[buffer.name]: Place(offsets[position], np.dtype(buffer.dtype))
            for position, buffer in graph.of_kind("input")
            if buffer.name in named
        }
        batch.read_into(self._arena, places, self._queue)
        return self._run(variant)

    def _run(self, variant: str) -> dict[str, Array]:
        graph, offsets = self._graphs[variant], self._offsets[variant]
        for kernel, work_items, work_group in self._launches[variant]:
            self._opencl.enqueue_nd_range_kernel(self._queue, kernel, work_items, work_group)
        outputs = {}
        for name, view in graph.outputs.items():
            buffer = graph.buffers[view.buffer]
            place = offsets[view.buffer] + view.offset * ITEM_BYTES[buffer.dtype]
            outputs[name] = self._download(place, view.shape, buffer.dtype)
        return outputs


def compile_graphs(graphs: Mapping[str, Graph], *, device: str | int = "cpu") -> Executable:
    """Return an executable for step graphs.

    Args:
        graphs: the graph of each variant (kind of gradient step), by the variant's name.
        device: as for `create`; by default this machine's first OpenCL device that is a CPU.

    Raises:
        ValueError: there is no such device.
    """
    return OpenclExecutable(graphs, device=device)


def create(algorithm: Algorithm, *, device: str | int = "cpu", batch_size: int, seed: int = 0) -> Learner:
    """Create a learner on an OpenCL device.

    Args:
        algorithm: from `primitives.algorithms.create`.
        device: a position in `opencl_runtime.devices()`, a part of a device's name, or "cpu" for the first CPU.
        batch_size: transitions per gradient step, at least 1.
        seed: seed of the initial parameters and of the draws.

    Raises:
        ValueError: there is no such device.
    """
    from placerl.primitives.learner.graph_learner import GraphLearner

    opencl_runtime.choose_for_learner(device)  # before the step is traced
    return GraphLearner(
        algorithm,
        lambda graphs: OpenclExecutable(graphs, device=device),
        backend="opencl",
        device=str(device),
        batch_size=batch_size,
        seed=seed,
    )
