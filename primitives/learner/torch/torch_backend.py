"""The backend "torch": a learner on PyTorch, in one of these modes.

| mode | how it takes a gradient step |
|---|---|
| `eager` | the algorithm's pure step, unchanged |
| `tuned` | the same step with autograd's plain engine, fused Adam and foreach averaging, in place |
| `compiled` | the pure step through `torch.compile`, one graph a variant |
| `graph` | on CUDA: the tuned step as one CUDA graph, with streams over sub-batches (PRL 4.2.1) |

Random draws come from a CPU generator on every device, so that a seed means the same everywhere.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm, StepResult, tree
from placerl.primitives.learner.base import Learner, StepOutcome, checked_state
from placerl.primitives.learner.torch.cuda_graph import CapturedStep
from placerl.primitives.learner.torch.device_inputs import DeviceInputs
from placerl.primitives.learner.torch.in_place import InPlaceUpdates, SplitUpdates
from placerl.primitives.learner.torch.moments import in_one_tensor, second_moments
from placerl.primitives.replay.device import DeviceBatch
from placerl.primitives.torch_device import torch_device

MODES = ("eager", "tuned", "compiled", "graph")


def unavailable_reason() -> str:
    """Return an empty string: this backend can always be used."""
    return ""


class TorchLearner(Learner):
    """A learner on PyTorch, in mode "eager", "tuned", "compiled" or "graph".

    Mode "eager" runs the algorithm's step unchanged, "tuned" updates in place with fewer PyTorch calls, "compiled"
    uses `torch.compile`, and "graph" runs the tuned step as one CUDA graph.
    """

    backend = "torch"

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        device: str = "cpu",
        batch_size: int,
        seed: int = 0,
        mode: str | None = None,
        streams: int = 1,
    ) -> None:
        """Create the initial state.

        Args:
            device: "cpu", "cuda" or "cuda:<number>".
            mode: one of `MODES`; by default "tuned" on the CPU and "graph" on CUDA.
            streams: for modes "tuned" and "graph", the number of equal parts of a batch; in mode "graph" each
                part has its own CUDA stream. It must divide the batch size.

        Raises:
            ValueError: an argument is out of range, or PyTorch does not have the device here.
        """
        super().__init__(algorithm, device=device, batch_size=batch_size, seed=seed)
        self._device = _numbered(torch_device(device))
        by_default = "graph" if self._device.type == "cuda" else "tuned"
        self.mode = by_default if mode is None else mode
        self._check_options(streams)
        self._streams = streams
        self._generator = torch.Generator().manual_seed(seed)
        self._inputs: DeviceInputs | None = None
        self._move(algorithm.initialise(self._generator))

    def _check_options(self, streams: int) -> None:
        checks.one_of("mode", self.mode, MODES)
        checks.whole("streams", streams, 1)
        if self.mode == "graph" and self._device.type != "cuda":
            raise ValueError(f"mode: found 'graph' on device {self.device!r}; allowed: on CUDA devices")
        if self.batch_size % streams:
            raise ValueError(
                f"streams: found {streams}; allowed: divisors of the batch size, {self.batch_size}"
            )
        if streams > 1 and self.mode not in ("tuned", "graph"):
            raise ValueError(f"streams: found {streams}; allowed in mode {self.mode!r}: 1")

    def _make_step(self) -> Callable[..., StepResult]:
        if self.mode == "graph":
            return CapturedStep(
                self.algorithm,
                self._state,
                self._moments,
                batch_size=self.batch_size,
                device=self._device,
                streams=self._streams,
            )
        if self.mode == "tuned":
            updates = SplitUpdates(self._streams) if self._streams > 1 else InPlaceUpdates()
            return replace(self.algorithm, updates=updates).gradient_step
        if self.mode == "compiled":
            compiled: Callable[..., StepResult] = torch.compile(
                self.algorithm.gradient_step, fullgraph=True, dynamic=False
            )
            return compiled
        return self.algorithm.gradient_step

    def _move(self, state: Any) -> None:
        self._state = tree.map_tensors(lambda leaf: leaf.to(self._device).contiguous(), state)
        self._moments: torch.Tensor | None = None
        if self.mode in ("tuned", "graph"):  # in place
            self._state, self._moments = in_one_tensor(self._state)
        self._acting: dict[str, np.ndarray] | None = None
        self._gradient_step = self._make_step()

    @property
    def place(self) -> Hashable:
        """An identifier of the memory of the CUDA device in which this learner reads batches; None on the CPU."""
        return ("cuda", self._device.index) if self._device.type == "cuda" else None

    def _step(self, batch: dict[str, np.ndarray], variant: str) -> StepOutcome:
        return self._stepped(batch, None, variant)

    def _step_resident(self, batch: DeviceBatch, host: dict[str, np.ndarray], variant: str) -> StepOutcome:
        return self._stepped(host, batch, variant)

    def _stepped(
        self, host: dict[str, np.ndarray], resident: DeviceBatch | None, variant: str
    ) -> StepOutcome:
        """Take one step on columns of the host and, if there is one, a batch on the device."""
        tensors = {name: torch.from_numpy(array) for name, array in host.items()}
        draws = self.algorithm.draw(self.batch_size, self._generator)
        with torch.no_grad():
            if isinstance(self._gradient_step, CapturedStep):  # which copies them itself
                result = self._gradient_step(tensors, draws, variant, resident)
            else:
                tensors = {name: value.to(self._device) for name, value in tensors.items()}
                draws = {name: value.to(self._device) for name, value in draws.items()}
                if resident is not None:
                    if self._inputs is None:
                        self._inputs = DeviceInputs(self.algorithm.columns(self.batch_size), self._device)
                    tensors |= self._inputs.read(resident)
                result = self._gradient_step(self._state, tensors, draws, variant)
        self._state = result.state
        if self.mode != "tuned" or self._device.type != "cpu":
            self._acting = None  # tuned steps on the CPU overwrite the arrays to which `_acting` refers
        losses = {name: value.item() for name, value in result.losses.items()}
        return StepOutcome(result.td_error.cpu().numpy(), losses)

    def _overflowed(self) -> bool:
        """Return whether one of Adam's second moments is NaN or infinite."""
        if isinstance(self._gradient_step, CapturedStep):
            largest = [self._gradient_step.largest_moment]
        elif self._moments is not None:
            largest = [self._moments.max()]
        else:
            largest = list(torch._foreach_max(list(second_moments(self._state).values())))
        return not all(math.isfinite(one.item()) for one in largest)

    def _acting_arrays(self) -> dict[str, np.ndarray]:
        if self._acting is None:
            acting = self.algorithm.acting_parameters(self._state)
            self._acting = {name: value.cpu().numpy() for name, value in acting.items()}
        return self._acting

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters that actors need for `Algorithm.act` and `explore`."""
        self._check_process()
        return {name: value.copy() for name, value in self._acting_arrays().items()}

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the whole state, the number of steps and the generator's state, by name."""
        self._check_process()
        leaves = {name: leaf.cpu().numpy().copy() for name, leaf in tree.flatten(self._state).items()}
        leaves["gradient_steps"] = np.asarray(self.gradient_steps)
        leaves["generator"] = self._generator.get_state().numpy().copy()
        return leaves

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a `state_dict` of the same algorithm, of this or any other backend."""
        self._check_process()
        own = {name: leaf.cpu().numpy() for name, leaf in tree.flatten(self._state).items()}
        checked = checked_state(own, state)
        leaves = {
            name: torch.from_numpy(np.array(leaf, own[name].dtype)) for name, leaf in checked.leaves.items()
        }
        self._move(tree.unflatten(self._state, leaves))
        self.gradient_steps = checked.gradient_steps
        if checked.generator is not None:
            self._generator.set_state(checked.generator)


def check_device(device: str) -> None:
    """Raise ValueError unless PyTorch has the device here: "cpu", "cuda" or "cuda:<number>"."""
    torch_device(device)


def _numbered(device: torch.device) -> torch.device:
    """Return a device with its number, by which a replay in its memory is known; "cuda" is PyTorch's current one."""
    return torch.device("cuda", torch.cuda.current_device()) if device == torch.device("cuda") else device


create = TorchLearner
