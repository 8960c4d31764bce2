"""Run a whole gradient step as one CUDA graph, with one launch.

Only inputs are copied from the host, and results to it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from placerl.primitives.algorithms import Algorithm, StepResult, tree
from placerl.primitives.learner.torch.device_inputs import DeviceInputs
from placerl.primitives.learner.torch.in_place import InPlaceUpdates, SplitUpdates
from placerl.primitives.replay.device import DeviceBatch

WARM_UP_STEPS = 3


class CapturedStep:
    """A gradient step as a CUDA graph: each variant is captured at its first use, and replayed afterwards.

    The columns of a batch go through page-locked buffers on the host, from which the graph itself copies them. Each
    stream copies the part of the batch that it works on, so that copies and kernels of different streams overlap (PRL
    4.2.1).

    Attributes:
        largest_moment: () the largest of Adam's second moments after the last step; NaN if one is.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state: Any,
        moments: Tensor | None,
        *,
        batch_size: int,
        device: torch.device,
        streams: int,
    ) -> None:
        """Allocate the buffers of a step.

        Args:
            state: its state on `device`; overwritten by every step.
            moments: Adam's second moments in the state, in one tensor; None if it has none.
            streams: number of equal parts of a batch, each with its own stream; 1: not divided.
        """
        self._device = device
        self._state = state
        self._moments = torch.zeros(1, device=device) if moments is None else moments
        self.largest_moment = self._moments.max()
        self._streams = [torch.cuda.Stream(device) for _ in range(streams)]
        self._updates = SplitUpdates(streams, self._streams) if streams > 1 else InPlaceUpdates()
        self._algorithm = replace(algorithm, updates=self._updates)
        columns = algorithm.columns(batch_size)
        draws = algorithm.draw(batch_size, torch.Generator().manual_seed(0))
        self._draw_names = tuple(draws)
        shapes = {name: (tuple(column.shape), column.dtype) for name, column in columns.items()}
        shapes |= {name: (tuple(value.shape), value.dtype) for name, value in draws.items()}
        self._host = {name: torch.empty(s, dtype=d).pin_memory() for name, (s, d) in shapes.items()}
        self._device_inputs = DeviceInputs(shapes, device)
        self._inputs = self._device_inputs.tensors
        self._resident: frozenset[str] = frozenset()
        self._graphs: dict[tuple[str, frozenset[str]], tuple[torch.cuda.CUDAGraph, StepResult, Tensor]] = {}

    def __call__(
        self,
        batch: Mapping[str, Tensor],
        draws: Mapping[str, Tensor],
        variant: str,
        resident: DeviceBatch | None = None,
    ) -> StepResult:
        """Run one step; the next step overwrites the result's tensors.

        Args:
            batch: the columns that are on the host.
            resident: the other columns, if they are in the device's memory. The graph does not copy these.
        """
        with torch.cuda.device(self._device):
            for name, column in {**batch, **draws}.items():
                self._host[name].copy_(column)
            self._resident = (
                frozenset() if resident is None else frozenset(self._device_inputs.read(resident))
            )
            key = variant, self._resident
            if key not in self._graphs:
                self._graphs[key] = self._capture(variant)
            graph, result, self.largest_moment = self._graphs[key]
            graph.replay()
            torch.cuda.synchronize(self._device)  # the host buffers are free again, and the results are ready
        return result

    def _capture(self, variant: str) -> tuple[torch.cuda.CUDAGraph, StepResult, Tensor]:
        # Libraries initialise themselves at their first calls, which must not be captured. The effect of these
        # calls on the state is undone.
        before = tree.map_tensors(torch.clone, self._state)
        stream = torch.cuda.Stream(self._device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_STEPS):
                self._step(variant)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = self._step(variant)
            largest_moment = self._moments.max()
        self._require_in_place(result.state)
        for old, new in zip(tree.flatten(before).values(), tree.flatten(self._state).values(), strict=True):
            new.copy_(old)
        return graph, result, largest_moment

    def _step(self, variant: str) -> StepResult:
        self._copy_inputs()
        inputs = dict(self._inputs)
        draws = {name: inputs.pop(name) for name in self._draw_names}
        return self._algorithm.gradient_step(self._state, inputs, draws, variant)

    def _copy_inputs(self) -> None:
        from_host = {name: host for name, host in self._host.items() if name not in self._resident}
        if not isinstance(self._updates, SplitUpdates):
            for name, host in from_host.items():
                self._inputs[name].copy_(host, non_blocking=True)
            return
        parts = zip(
            self._streams, self._updates.split(from_host), self._updates.split(self._inputs), strict=True
        )
        for stream, host_part, part in parts:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for name, host in host_part.items():
                    part[name].copy_(host, non_blocking=True)

    def _require_in_place(self, new: Any) -> None:
        """Check that a captured step writes to the state itself, because a replayed step writes to the same
        memory.
        """
        old = tree.flatten(self._state)
        for name, leaf in tree.flatten(new).items():
            if leaf.data_ptr() != old[name].data_ptr():
                raise RuntimeError(f"{self._algorithm.name}: {name} of the new state is another tensor")
