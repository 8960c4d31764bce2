"""The learner of the graph backends: traces each kind of an algorithm's gradient step, which a backend then runs."""

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from placerl.primitives.algorithms import Algorithm, tree
from placerl.primitives.graph.executable import Array, Executable
from placerl.primitives.graph.graph import Graph
from placerl.primitives.graph.trace import trace
from placerl.primitives.learner import finite
from placerl.primitives.learner.base import Learner, StepOutcome, checked_state
from placerl.primitives.replay.device import DeviceBatch

Compile = Callable[[Mapping[str, Graph]], Executable]


@lru_cache(maxsize=64)
def step_graph(algorithm: Algorithm, batch_size: int, variant: str) -> Graph:
    """Return the step graph of one variant (kind of step) of an algorithm, for one batch size.

    Raises:
        UnsupportedOperationError: no graph backend has an operation.
    """

    def step(state: Any, batch: Any, draws: Any) -> Any:
        return algorithm.gradient_step(state, batch, draws, variant)

    generator = torch.Generator().manual_seed(0)
    batch = {
        name: torch.zeros(shape, dtype=dtype)
        for name, (shape, dtype) in algorithm.columns(batch_size).items()
    }
    return trace(step, (algorithm.initialise(generator), batch, algorithm.draw(batch_size, generator)))


class GraphLearner(Learner):
    """A learner whose state and gradient steps are in an `Executable`, made from the algorithm's step graphs."""

    def __init__(
        self,
        algorithm: Algorithm,
        compile_graphs: Compile,
        *,
        backend: str,
        device: str,
        batch_size: int,
        seed: int,
    ) -> None:
        """Trace, compile, and create the initial state.

        Args:
            compile_graphs: creates an executable from the graphs of all variants.
            device, batch_size, seed: see `primitives.learner.create`.

        Raises:
            UnsupportedOperationError: the backend lacks an operation.
            ValueError: an argument is out of range.
        """
        super().__init__(algorithm, device=device, batch_size=batch_size, seed=seed)
        self.backend = backend  # type: ignore[misc]
        self.executable = compile_graphs(
            {variant: step_graph(algorithm, batch_size, variant) for variant in algorithm.variants}
        )
        self._replaced = 0  # `Executable.not_finite` after the last step
        self._acting: dict[str, Array] | None = None
        self._acting_state: dict[str, Array] = {}
        self._generator = torch.Generator().manual_seed(seed)
        self._structure = algorithm.initialise(self._generator)
        for name, leaf in tree.flatten(self._structure).items():
            self.executable.write_state(f"state/{name}", leaf.numpy())

    @property
    def place(self) -> Hashable:
        """An identifier of the device memory in which the executable reads batches; None if it reads none there."""
        return self.executable.place

    def _step(self, batch: dict[str, Array], variant: str) -> StepOutcome:
        return outcome_of(self.executable.step(variant, self._inputs(batch)))

    def _step_resident(self, batch: DeviceBatch, host: dict[str, Array], variant: str) -> StepOutcome:
        return outcome_of(self.executable.step_on(variant, self._inputs(host), batch))

    def _require_finite(self, outcome: StepOutcome) -> None:
        """Raise NotFiniteError also for NaN and infinity that the device replaced: the results do not show them."""
        before, self._replaced = self._replaced, self.executable.not_finite
        if self._replaced > before:
            raise finite.not_finite(self.gradient_steps, "inputs of products or sums")
        super()._require_finite(outcome)

    def _overflowed(self) -> bool:
        return self.executable.overflowed()

    def _inputs(self, batch: dict[str, Array]) -> dict[str, Array]:
        inputs = {f"batch/{name}": array for name, array in batch.items()}
        for name, value in self.algorithm.draw(self.batch_size, self._generator).items():
            inputs[f"draws/{name}"] = value.numpy()
        return inputs

    def _leaves(self) -> dict[str, Array]:
        return {name.removeprefix("state/"): array for name, array in self.executable.state().items()}

    def _acting_arrays(self) -> dict[str, Array]:
        state = self.executable.state()
        if self._acting is None or state is not self._acting_state:
            # If an executable returns the same dict again, its state has not moved, and its views stay valid.
            leaves = {name: torch.from_numpy(array) for name, array in self._leaves().items()}
            acting = self.algorithm.acting_parameters(tree.unflatten(self._structure, leaves))
            self._acting_state = state
            self._acting = {name: value.numpy() for name, value in acting.items()}
        return self._acting

    def parameters(self) -> dict[str, Array]:
        """Return copies of the parameters that actors need for `Algorithm.act` and `explore`."""
        self._check_process()
        return {name: value.copy() for name, value in self._acting_arrays().items()}

    def state_dict(self) -> dict[str, Array]:
        """Return copies of the whole state, the number of steps and the generator's state, by name."""
        self._check_process()
        leaves = {name: np.array(array, order="C") for name, array in self._leaves().items()}
        leaves["gradient_steps"] = np.asarray(self.gradient_steps)
        leaves["generator"] = self._generator.get_state().numpy().copy()
        return leaves

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue from a `state_dict` of the same algorithm, of this or any other backend."""
        self._check_process()
        checked = checked_state(self._leaves(), state)
        for name, leaf in checked.leaves.items():
            self.executable.write_state(f"state/{name}", leaf)
        self.gradient_steps = checked.gradient_steps
        if checked.generator is not None:
            self._generator.set_state(checked.generator)


def outcome_of(outputs: dict[str, Array]) -> StepOutcome:
    """Return the outputs of a step graph as the outcome of a gradient step."""
    td_errors = outputs.pop("td_error")
    losses = {name.removeprefix("losses/"): float(value) for name, value in outputs.items()}
    return StepOutcome(td_errors, losses)
