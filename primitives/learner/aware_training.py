"""Quantisation-aware training in fixed point (FIX IV, Algorithm 1), for every algorithm that has a step graph.

    for t = 0, 1, ...:
        t < d:   a gradient step in 32-bit fixed point; record the smallest and largest value of every activation
        t >= d:  the same, with n-bit activations, Q_n(A) = floor(A / delta) + z, over these ranges

Forward and backward passes, weight updates, Adam and Polyak averaging all use the fixed-point state, and so do
greedy actions (`precision` defines the formats, `roles` the role of each buffer).
"""

from collections.abc import Iterable, Mapping

import numpy as np

from placerl.primitives import backend as backends_of
from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.graph.executable import Array, Executable
from placerl.primitives.graph.graph import Graph
from placerl.primitives.learner.acting import acting_by, acting_graph
from placerl.primitives.learner.base import StepOutcome, checked_state
from placerl.primitives.learner.fixed_point_policy import ACT, ROOM, ActingLeaves, FixedPointPolicy, published
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.quantization.executable import FixedPointExecutable
from placerl.primitives.quantization.precision import Precision

_EXTREMES = "extremes/"
_NATIVE = "native"


class FixedPointLearner(GraphLearner):
    """A learner whose state and gradient steps are in fixed point; created by `primitives.learner.create`.

    `state_dict` also holds the recorded ranges of the activations, and the exact state (as float64), so that a
    training that continues from it gives the same bits.

    Attributes:
        precision: the number formats, and the delay d.
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
        threads: int = 1,
    ) -> None:
        """Trace the algorithm, assign roles, and create the initial state, rounded to its formats."""
        module = backends_of.load(ROOM, backend)
        self.precision = precision
        options = {"threads": threads} if backend == _NATIVE else {}

        def compile_graphs(graphs: Mapping[str, Graph]) -> Executable:
            executable: Executable = module.executable(
                {**graphs, ACT: acting_graph(algorithm)}, precision, device, **options
            )
            return executable

        super().__init__(
            algorithm, compile_graphs, backend=backend, device=device, batch_size=batch_size, seed=seed
        )
        self._acting_leaves = ActingLeaves(self.fixed, algorithm, self._structure, self._ones.dtype)
        self._published = 0
        self._explorer = acting_by(algorithm, self._act)

    @property
    def fixed(self) -> FixedPointExecutable:
        """The executable, which runs the steps in fixed point and records ranges and counts."""
        assert isinstance(self.executable, FixedPointExecutable)
        return self.executable

    @property
    def saturated(self) -> dict[str, int]:
        """The number of values that have not fitted their format so far, by kind (such as "weights")."""
        return dict(self.fixed.saturated)

    @property
    def quantised(self) -> bool:
        """Whether the operands of products are quantised now, which begins after `precision.delay` gradient steps."""
        return bool(self.fixed.affine)

    def narrow_when_due(self) -> None:
        """Begin to quantise the operands of products if `precision.delay` gradient steps have been taken."""
        if self.precision.narrows and self.gradient_steps >= self.precision.delay and not self.quantised:
            self.fixed.quantise()

    def _step(self, batch: dict[str, Array], variant: str) -> StepOutcome:
        self.narrow_when_due()
        return super()._step(batch, variant)

    def _act(self, observation: Array) -> Array:
        rows = [
            self.fixed.step(ACT, {"batch/observation": one[None].astype(self._columns["observation"][1])})
            for one in observation
        ]
        return np.concatenate([row["action"] for row in rows])

    def explore(self, observation: Array, environment_step: int, rng: np.random.Generator) -> Array:
        """Return the actions that an actor takes while it gathers experience, computed in fixed point.

        Args:
            observation: (n, *observation_shape), or one observation without the first dimension.
        """
        self._check_process()
        batch, single = self._exploring(observation, environment_step, rng)
        action = self._explorer.explore(self._acting_leaves, batch, environment_step, rng)
        return action[0] if single else action

    def policy(self) -> FixedPointPolicy:
        """Return a policy for actors in other threads or processes, which computes actions in fixed point."""
        return FixedPointPolicy(self.algorithm, self.precision, self.backend)

    def policy_parameters(self) -> dict[str, Array]:
        """Return copies of the arrays with which a `FixedPointPolicy` acts, by name.

        They are the stored parameters and the rules by which the operands of products are quantised.
        """
        self._check_process()
        self._published += 1
        return published(self.fixed, self._acting_leaves, self._published)

    def _acting_arrays(self) -> dict[str, Array]:
        return dict(self._acting_leaves)

    def state_dict(self) -> dict[str, Array]:
        """Return copies of the exact state, the number of steps, the generator's state and the recorded ranges."""
        self._check_process()
        extremes = {
            f"{_EXTREMES}{key}": np.array(pair, np.int64) for key, pair in self.fixed.extremes.items()
        }
        return super().state_dict() | extremes

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continue from a `state_dict` of the same algorithm, of a fixed-point learner or of one in floating point.

        Raises:
            ValueError: a name is missing or unknown, a shape differs, a value is not of the right kind, or there are no
                ranges of weights, activations or errors that the precision narrows although `precision.delay`
                gradient steps have been taken; the state is unchanged.
        """
        self._check_process()
        known = {f"{_EXTREMES}{key}": key for key in self.fixed.operand_keys}
        extremes = {known[name]: _extremes(name, pair) for name, pair in state.items() if name in known}
        others = {name: value for name, value in state.items() if name not in known}
        steps = checked_state(self._leaves(), others).gradient_steps
        coded = {key for variant in self.fixed.graphs for key in self.fixed.coded_operands(variant)}
        # Not by operand: what only a kind of step reads that was not taken has no range.
        missing = _roles(coded) - _roles(extremes)
        if steps >= self.precision.delay and missing:
            raise ValueError(
                f"state: found no recorded ranges of {' and '.join(sorted(missing))} operands after {steps} gradient "
                f"steps; allowed: the ranges that products of this precision need, or fewer than "
                f"{self.precision.delay} steps"
            )
        super().load_state_dict(others)
        self.fixed.restart_capture(extremes)
        if self.precision.narrows and self.gradient_steps > self.precision.delay:
            self.fixed.quantise()


def _roles(keys: Iterable[str]) -> set[str]:
    """Return the roles of operands, such as "weight", from their keys."""
    return {key.partition("/")[0] for key in keys}


def _extremes(key: str, pair: Array) -> tuple[int, int]:
    """Return the smallest and the largest raw value of an operand that a `state_dict` has."""
    extremes = np.asarray(pair)
    if extremes.shape != (2,) or extremes.dtype.kind not in "iu" or extremes[0] > extremes[1]:
        raise ValueError(
            f"state[{key!r}]: found {extremes.tolist()}; allowed: two whole numbers, the smaller first"
        )
    return int(extremes[0]), int(extremes[1])


def backends() -> tuple[str, ...]:
    """Return the names of the backends of fixed-point training."""
    return backends_of.names(ROOM)


def learner_kind(backend: str) -> type[FixedPointLearner]:
    """Return the class of a backend's fixed-point learners.

    It is `FixedPointLearner`, unless the backend's module defines another as `learner_kind`.
    """
    kind: type[FixedPointLearner] = getattr(
        backends_of.load(ROOM, backend), "learner_kind", FixedPointLearner
    )
    return kind


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
    """Create a fixed-point learner with its initial state; called by `primitives.learner.create`.

    Args:
        algorithm: from `primitives.algorithms.create`; its initial state is rounded to the formats.
        backend: one of `backends()`; all agree bit by bit.
        device: "cpu", or also "cuda" with PyTorch.
        threads: threads that share the large operations of a step: at most 64 for backend "native", else 1. The
            results do not depend on it.

    Raises:
        ValueError: an argument is out of range; the message names it.
        UnsupportedOperationError: the vector unit lacks an operation; the message names the user's line.
    """
    checks.one_of("device", device, ("cpu", "cuda") if backend == "torch" else ("cpu",))
    if backend != _NATIVE:
        checks.whole("threads", threads, 1, 1)
    return learner_kind(backend)(
        algorithm,
        precision,
        backend=backend,
        device=device,
        batch_size=batch_size,
        seed=seed,
        threads=threads,
    )
