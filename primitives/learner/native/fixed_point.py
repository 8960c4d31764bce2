"""The native learner in fixed point: its steps and actions are calls of the executor, as in floats."""

from collections.abc import Mapping

from primitives.graph.executable import Array
from primitives.learner.aware_training import FixedPointLearner
from primitives.learner.base import StepOutcome
from primitives.learner.fixed_point_policy import ACT
from primitives.learner.native.calls import NativeCalls


class NativeFixedPointLearner(FixedPointLearner, NativeCalls):
    """A fixed-point learner on the native executor; created by `primitives.learner.create`."""

    def step(
        self, batch: Mapping[str, Array], weights: Array | None = None, *, variant: str | None = None
    ) -> StepOutcome:
        """Take one gradient step; see `Learner.step`."""
        self.narrow_when_due()
        return super().step(batch, weights, variant=variant)

    def prepare_steps(self, count: int) -> int:
        """See `NativeCalls.prepare_steps`: the delay of Algorithm 1 ends between two calls."""
        self.narrow_when_due()
        left = self.precision.delay - self.gradient_steps
        return min(count, left) if left > 0 else count

    def _act(self, observation: Array) -> Array:
        return self._acted(ACT, observation, {})
