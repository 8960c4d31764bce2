"""Runs step graphs on any device as a sequence of kernels.

All data are in one buffer of the device's memory, the arena.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from placerl.primitives.device import Device, Groups, Kernel, Part
from placerl.primitives.device import Graph as Recorded
from placerl.primitives.graph.executable import Array, Executable, require_supported, with_dense_outputs
from placerl.primitives.graph.graph import ALIGNMENT_BYTES, ITEM_BYTES, Graph, plan
from placerl.primitives.learner.device import source
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.device import DeviceBatch
from placerl.primitives.replay.device.packed_rows import Place


class _Launch(NamedTuple):
    """A kernel, how often it runs, and its arguments after the arena."""

    kernel: Kernel
    size: int | Groups
    offsets_bytes: tuple[np.int64, ...]


class DeviceExecutable(OwnProcess, Executable):
    """Runs step graphs as kernels on one buffer, the arena, which begins with the variants' shared state.

    It belongs to the process that created it, as the threads of a device's driver do.

    Attributes:
        device: the device.
        stream: the stream of all its work.
        arena: the buffer.
    """

    def __init__(self, graphs: Mapping[str, Graph], device: Device) -> None:
        """Place the buffers, and build the kernels.

        Raises:
            UnsupportedOperationError: the device lacks an operation or a dtype; the message names the user's
                line.
        """
        OwnProcess.__init__(self)
        Executable.__init__(self, graphs)
        self.device, self.stream = device, device.stream()
        self._graphs: dict[str, Graph] = {}
        self._offsets: dict[str, list[int]] = {}
        self._launches: dict[str, list[_Launch]] = {}
        self._steps: dict[str, Recorded] = {}
        self._state_offsets: dict[str, int] = {}
        self._arena_bytes = ALIGNMENT_BYTES  # of `source.OVERFLOWED`
        self.arena = self.stream.zeros(self._arena_bytes)
        self._install(graphs)

    def add(self, variant: str, graph: Graph) -> None:
        """Add a graph on the same state, such as one that computes actions.

        The arena becomes a larger buffer, of which whoever recorded a use of the old one knows nothing.

        Raises:
            UnsupportedOperationError: the device lacks an operation or a dtype.
            ValueError: the name is taken, or the graph has another state.
        """
        self._check_process()
        if variant in self.graphs:
            raise ValueError(
                f"variant: found {variant!r}; allowed: names other than {', '.join(self.graphs)}"
            )
        self._add_graph(variant, graph)
        self._install({variant: graph})

    def _install(self, graphs: Mapping[str, Graph]) -> None:
        """Place the graphs' buffers, build their kernels, and record all graphs on an arena with room for them."""
        dtypes = tuple(dtype for dtype in source.TYPES if self.device.has_double or dtype != "float64")
        for graph in graphs.values():
            require_supported(
                graph, self.device.kind, kinds=source.KINDS, operations=source.OPERATIONS, dtypes=dtypes
            )
        dense = {variant: with_dense_outputs(graph) for variant, graph in graphs.items()}
        old, old_bytes = self.arena, self._arena_bytes
        self._place(dense)
        self.arena = self.stream.zeros(self._arena_bytes)
        self.stream.copy(self.arena, old, old_bytes)
        self._graphs |= dense
        for variant, graph in dense.items():
            for i, buffer in graph.of_kind("constant"):
                self._upload(self._offsets[variant][i], np.array(buffer.values, buffer.dtype))
        self._launches |= self._compiled(dense)
        for variant in self._graphs:
            with self.stream.recorded() as self._steps[variant]:
                self.launch(variant)

    def _place(self, graphs: Mapping[str, Graph]) -> None:
        """Place the buffers of graphs after those of the others; all have the state at the same place."""
        for variant, graph in graphs.items():
            placed = plan(graph)
            offsets = [self._arena_bytes + offset for offset in placed.offsets_bytes]
            for i, buffer in graph.of_kind("state"):
                offsets[i] = self._state_offsets.setdefault(buffer.name, offsets[i])
            self._offsets[variant] = offsets
            self._arena_bytes += placed.arena_bytes

    def _compiled(self, graphs: Mapping[str, Graph]) -> dict[str, list[_Launch]]:
        """Return each variant's launches in order; equal kernels are built once."""
        launches = {
            variant: [launch for node in graph.nodes for launch in source.launches(node, graph.buffers)]
            for variant, graph in graphs.items()
        }
        names, text = source.named(launch for listed in launches.values() for launch in listed)
        # As the native executor has it: `native/subnormals.hpp` says why.
        kernels = self.device.kernels(text, flush_subnormals=True)
        compiled = {}
        for variant, listed in launches.items():
            buffers, offsets = graphs[variant].buffers, self._offsets[variant]
            compiled[variant] = [
                _Launch(
                    kernels[names[launch.source("kernel")]],
                    launch.size,
                    tuple(np.int64(source.byte_offset(view, buffers, offsets)) for view in launch.views),
                )
                for launch in listed
            ]
        return compiled

    def launch(self, variant: str) -> None:
        """Start a variant's kernels on `stream`, or record them there; `inputs` and `outputs` say where."""
        for launch in self._launches[variant]:
            self.stream.launch(launch.kernel, launch.size, self.arena, *launch.offsets_bytes)

    def inputs(self, variant: str) -> dict[str, Part]:
        """Return where in the arena a variant reads its inputs, by name, such as `batch/reward`."""
        return {buffer.name: self._part(variant, i) for i, buffer in self._graphs[variant].of_kind("input")}

    def outputs(self, variant: str) -> dict[str, Part]:
        """Return where in the arena a variant writes its outputs, by name, each contiguous."""
        views = self._graphs[variant].outputs.items()
        return {name: self._part(variant, view.buffer) for name, view in views}

    def _part(self, variant: str, position: int) -> Part:
        buffer = self._graphs[variant].buffers[position]
        size_bytes = buffer.size * ITEM_BYTES[buffer.dtype]
        return Part(self.arena, self._offsets[variant][position], size_bytes)

    def _upload(self, offset: int, value: Array) -> None:
        self.stream.upload(self.arena, value, offset)

    def _download(self, offset: int, shape: tuple[int, ...], dtype: str) -> Array:
        return self.stream.download(self.arena, shape, dtype, offset)

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
        overflowed = bool(self._download(0, (), source.OVERFLOWED.name))
        if overflowed:
            self.stream.clear(self.arena, source.OVERFLOWED.itemsize)
        return overflowed

    def write_state(self, name: str, value: Array) -> None:
        """Set one array (leaf) of the learner's state."""
        self._check_process()
        buffer = self.state_buffers[name]
        self._upload(self._state_offsets[name], np.asarray(value, buffer.dtype))

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step, and return copies of the graph's outputs on the host, by name."""
        self._check_process()
        for position, value in self.checked_inputs(variant, inputs):
            self._upload(self._offsets[variant][position], value)
        return self._run(variant)

    @property
    def place(self) -> Hashable:
        """An identifier of the memory of this device, in which `step_on` reads batches."""
        return self.device.place

    def step_on(self, variant: str, inputs: Mapping[str, Array], batch: DeviceBatch) -> dict[str, Array]:
        """Run one gradient step on a batch in the device's memory, and return copies of the outputs by name.

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
        batch.read_into(self.arena, places, self.stream)
        return self._run(variant)

    def _run(self, variant: str) -> dict[str, Array]:
        self._steps[variant].replay()
        outputs = {}
        for name, part in self.outputs(variant).items():
            view = self._graphs[variant].outputs[name]
            dtype = self._graphs[variant].buffers[view.buffer].dtype
            outputs[name] = self._download(part.offset_bytes, view.shape, dtype)
        return outputs
