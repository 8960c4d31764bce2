"""Runs step graphs on any device as a sequence of kernels.

All data are in one buffer of the device's memory, the arena.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import NamedTuple

import numpy as np

from placerl.primitives.device import Device, Groups, Kernel, Part
from placerl.primitives.device import Graph as Recorded
from placerl.primitives.graph.executable import Array, Executable, require_supported, with_dense_outputs
from placerl.primitives.graph.graph import ALIGNMENT_BYTES, ITEM_BYTES, Graph, View, plan
from placerl.primitives.learner.device import source
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.device import DeviceBatch
from placerl.primitives.replay.device.packed_rows import Place


class _Launch(NamedTuple):
    """A kernel, how often it runs, and what its arguments after the arena point to."""

    kernel: Kernel
    size: int | Groups
    views: tuple[View, ...]

    def offsets_bytes(self, graph: Graph, offsets: list[int]) -> tuple[np.int64, ...]:
        """Return these arguments, for where the graph's buffers begin."""
        return tuple(np.int64(source.byte_offset(view, graph.buffers, offsets)) for view in self.views)


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
        self._batches: dict[tuple[str, int], list[int]] = {}  # the offsets with the inputs of another batch
        self._launches: dict[str, list[_Launch]] = {}
        self._steps: dict[str, Recorded] = {}
        self._state_offsets: dict[str, int] = {}
        self._arena_bytes = ALIGNMENT_BYTES  # of `source.NOTES`
        self.arena = self.stream.zeros(self._arena_bytes)
        self._picking: set[str] = set()  # the variants that look indices up
        self._notes_are_read = self._has_overflowed = False
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
        old_bytes = self._arena_bytes
        self._place(dense)
        self._enlarge(old_bytes)
        self._graphs |= dense
        for variant, graph in dense.items():
            if any(node.kind in source.PICKS for node in graph.nodes):
                self._picking.add(variant)
            for i, buffer in graph.of_kind("constant"):
                self._upload(self._offsets[variant][i], np.array(buffer.values, buffer.dtype))
        self._launches |= self._compiled(dense)
        self._record()

    def add_batches(self, variants: Collection[str], count: int) -> None:
        """Make room for more batches, of which some variants read any, so that one is written while another is read.

        The arena becomes a larger buffer, as with `add`.

        Args:
            count: number of batches; `inputs` and `launch` take their numbers, from 1.
        """
        self._check_process()
        old_bytes = self._arena_bytes
        for batch in range(1, count + 1):
            places: dict[str, int] = {}  # of which all variants have the same
            for variant in variants:
                offsets = self._batches[variant, batch] = [*self._offsets[variant]]
                for i, buffer in self._graphs[variant].of_kind("input"):
                    if not buffer.name.startswith("batch/"):
                        continue
                    if buffer.name not in places:
                        places[buffer.name] = self._arena_bytes
                        size_bytes = buffer.size * ITEM_BYTES[buffer.dtype]
                        self._arena_bytes += -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
                    offsets[i] = places[buffer.name]
        self._enlarge(old_bytes)
        self._record()

    def _enlarge(self, old_bytes: int) -> None:
        """Replace the arena by a larger one with the same content."""
        old, self.arena = self.arena, self.stream.zeros(self._arena_bytes)
        self.stream.copy(self.arena, old, old_bytes)

    def _record(self) -> None:
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
            variant: [
                launch
                for node in graph.nodes
                for launch in source.launches(node, graph.buffers, is_gpu=self.device.is_gpu)
            ]
            for variant, graph in graphs.items()
        }
        names, text = source.named(launch for listed in launches.values() for launch in listed)
        # As the native executor has it: `native/subnormals.hpp` says why.
        kernels = self.device.kernels(text, flush_subnormals=True)
        compiled = {}
        for variant, listed in launches.items():
            compiled[variant] = [
                _Launch(kernels[names[launch.source("kernel")]], launch.size, tuple(launch.views))
                for launch in listed
            ]
        return compiled

    def launch(self, variant: str, batch: int = 0) -> None:
        """Start a variant's kernels on `stream`, or record them there; `inputs` and `outputs` say where.

        Args:
            batch: which batch they read: 0, that of `step`, or one of `add_batches`.
        """
        graph, offsets = self._graphs[variant], self._offsets_of(variant, batch)
        for launch in self._launches[variant]:
            self.stream.launch(launch.kernel, launch.size, self.arena, *launch.offsets_bytes(graph, offsets))

    def _offsets_of(self, variant: str, batch: int) -> list[int]:
        return self._batches[variant, batch] if batch else self._offsets[variant]

    def inputs(self, variant: str, batch: int = 0) -> dict[str, Part]:
        """Return where in the arena a variant reads its inputs, by name, such as `batch/reward`.

        Args:
            batch: as of `launch`.
        """
        offsets = self._offsets_of(variant, batch)
        inputs = self._graphs[variant].of_kind("input")
        return {buffer.name: self._part(variant, i, offsets) for i, buffer in inputs}

    def outputs(self, variant: str) -> dict[str, Part]:
        """Return where in the arena a variant writes its outputs, by name, each contiguous."""
        views, offsets = self._graphs[variant].outputs.items(), self._offsets[variant]
        return {name: self._part(variant, view.buffer, offsets) for name, view in views}

    def state_parts(self) -> dict[str, Part]:
        """Return where in the arena the arrays (leaves) of the state are, by name, each contiguous."""
        return {
            name: Part(self.arena, self._state_offsets[name], buffer.size * ITEM_BYTES[buffer.dtype])
            for name, buffer in self.state_buffers.items()
        }

    def _part(self, variant: str, position: int, offsets: list[int]) -> Part:
        buffer = self._graphs[variant].buffers[position]
        return Part(self.arena, offsets[position], buffer.size * ITEM_BYTES[buffer.dtype])

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
        if not self._notes_are_read:
            self.read_notes()
        overflowed = self._has_overflowed
        self._notes_are_read = self._has_overflowed = False
        return overflowed

    def read_notes(self) -> None:
        """Wait for the kernels, and read what they have noted; the next call of `overflowed` then does not wait.

        Raises:
            IndexError: an index was out of range since the last call; the state is of no use.
        """
        self._check_process()
        overflowed, size, index = self._download(0, (source.NOTES,), "int64").tolist()
        if overflowed or size:
            self.stream.clear(self.arena, ITEM_BYTES["int64"] * source.NOTES)
        self._has_overflowed |= bool(overflowed)
        self._notes_are_read = True
        if size:
            raise IndexError(f"index: found {index}; allowed: {-size} to {size - 1}")

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
        self._notes_are_read = False
        if variant in self._picking:
            self.read_notes()
        outputs = {}
        for name, part in self.outputs(variant).items():
            view = self._graphs[variant].outputs[name]
            dtype = self._graphs[variant].buffers[view.buffer].dtype
            outputs[name] = self._download(part.offset_bytes, view.shape, dtype)
        return outputs
