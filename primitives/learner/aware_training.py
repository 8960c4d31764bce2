"""Quantisation-aware training in fixed point (FIX IV, Algorithm 1), for every algorithm that has a step graph.

    for t = 0, 1, ...:
        t < d:   a gradient step in 32-bit fixed point; note the extremes of every activation
        t >= d:  the same, with activations of n bits, Q_n(A) = floor(A / delta) + z, over those extremes

Forward and backward passes, weight updates, Adam and Polyak averaging all run on the fixed-point state
(`precision` says in which formats, `roles` what is what); greedy actions run on it too.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from primitives import backend as backends_of
from primitives.algorithms import Algorithm, checks, tree
from primitives.graph.executable import Array, Executable
from primitives.graph.graph import Graph
from primitives.learner.acting import acting_by, acting_graph
from primitives.learner.base import StepOutcome
from primitives.learner.graph_learner import GraphLearner
from primitives.quantization.executable import FixedPointExecutable
from primitives.quantization.precision import Precision

_ACT = "act"
_EXTREMES = "extremes/"


ROOM = "primitives.quantization"
"""Where the backends of fixed-point training lie."""


class _Leaves(Mapping[str, Array]):
    """Acting parameters, turned into floats when they are asked for: most algorithms act on the graph instead."""

    def __init__(self, executable: FixedPointExecutable, names: Mapping[str, str], dtype: Any) -> None:
        self._executable, self._names, self._dtype = executable, names, dtype

    def __getitem__(self, name: str) -> Array:
        return self._executable.leaf(f"state/{self._names[name]}").astype(self._dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class FixedPointLearner(GraphLearner):
    """A learner whose state and gradient steps are fixed-point; `primitives.learner.create` makes one.

    `state_dict` has the captured extremes too, and the state exactly (as float64), so that training goes on to the
    bit.

    Attributes:
        precision: the formats, and the delay.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        precision: Precision,
        *,
        backend: str,
        device: str,
        batch_size: int,
        seed: int,
    ) -> None:
        """Trace, assign roles, and make the initial state, rounded to its formats."""
        module = backends_of.load(ROOM, backend)
        self.precision = precision

        def compile_graphs(graphs: Mapping[str, Graph]) -> Executable:
            made: Executable = module.executable({**graphs, _ACT: acting_graph(algorithm)}, precision, device)
            return made

        super().__init__(
            algorithm, compile_graphs, backend=backend, device=device, batch_size=batch_size, seed=seed
        )
        # The acting parameters are a choice among the state's leaves: of their names too.
        names: Any = tree.unflatten(self._structure, {name: name for name in tree.flatten(self._structure)})
        acting: Any = algorithm.acting_parameters(names)
        self._acting_leaves = _Leaves(self.fixed, acting, self._ones.dtype)
        self._explorer = acting_by(algorithm, self._act)

    @property
    def fixed(self) -> FixedPointExecutable:
        """The executable, with its extremes, codes and counts."""
        assert isinstance(self.executable, FixedPointExecutable)
        return self.executable

    @property
    def saturated(self) -> dict[str, int]:
        """How many numbers did not fit their format so far, by what they are."""
        return dict(self.fixed.saturated)

    @property
    def quantised(self) -> bool:
        """Whether the delay is over."""
        return bool(self.fixed.affine)

    def _step(self, batch: dict[str, Array], variant: str) -> StepOutcome:
        if self.precision.narrows and self.gradient_steps >= self.precision.delay and not self.quantised:
            self.fixed.quantise()
        return super()._step(batch, variant)

    def _act(self, observation: Array) -> Array:
        rows = [
            self.fixed.step(_ACT, {"batch/observation": one[None].astype(self._columns["observation"][1])})
            for one in observation
        ]
        return np.concatenate([row["action"] for row in rows])

    def explore(self, observation: Array, environment_step: int, rng: np.random.Generator) -> Array:
        """The action that an actor takes while it gathers experience; see `Algorithm.explore`."""
        batch, single = self._observations(observation)
        action = self._explorer.explore(self._acting_leaves, batch, environment_step, rng)
        return action[0] if single else action

    def _acting_arrays(self) -> dict[str, Array]:
        return dict(self._acting_leaves)

    def state_dict(self) -> dict[str, Array]:
        """The state exactly, the number of steps, the generator, and the captured extremes."""
        extremes = {
            f"{_EXTREMES}{key}": np.array(pair, np.int64) for key, pair in self.fixed.extremes.items()
        }
        return super().state_dict() | extremes

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on from a `state_dict`, of a float learner too; see `Learner.load_state_dict`."""
        super().load_state_dict({k: v for k, v in state.items() if not k.startswith(_EXTREMES)})
        self.fixed.restart_capture(
            {
                key.removeprefix(_EXTREMES): (int(pair[0]), int(pair[1]))
                for key, pair in state.items()
                if key.startswith(_EXTREMES)
            }
        )
        if self.precision.narrows and self.gradient_steps > self.precision.delay:
            self.fixed.quantise()


def backends() -> tuple[str, ...]:
    """The names of the backends of fixed-point training."""
    return backends_of.names(ROOM)


def create(
    algorithm: Algorithm,
    precision: Precision,
    *,
    backend: str = "native",
    device: str = "cpu",
    batch_size: int,
    seed: int = 0,
    threads: int = 1,
) -> FixedPointLearner:
    """Create a fixed-point learner with its initial state; `primitives.learner.create` comes here.

    Args:
        algorithm: from `primitives.algorithms.create`; its initial state is rounded to the formats.
        precision: the formats, and the delay.
        backend: one of `backends()`: they agree to the last bit.
        device: "cpu"; "cuda" too with PyTorch.
        batch_size, seed: as `primitives.learner.create`.
        threads: 1: no backend shares a fixed-point step among several.

    Raises:
        ValueError: an argument out of range; it is named.
        UnsupportedOperationError: an operation that the vector unit lacks; names the user's line.
    """
    checks.one_of("device", device, ("cpu", "cuda") if backend == "torch" else ("cpu",))
    checks.whole("threads", threads, 1, 1)
    return FixedPointLearner(
        algorithm, precision, backend=backend, device=device, batch_size=batch_size, seed=seed
    )
