"""The native learner in fixed point, which also takes each step and each action in one call of the executor.

The time of a step depends on its numbers: a product takes as many digits of at most 16 bits as the ranges of its
operands need (`quantization/native/digit_plan.hpp`). In precision "dynamic", a step of hopper-ddpg took 423 million
multiply-adds of 16 bits from a trained state (1,000 steps) and 334 million from a fresh one (measured).
"""

from collections.abc import Mapping

from placerl.primitives.graph.executable import Array
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.base import StepOutcome
from placerl.primitives.learner.fixed_point_policy import ACT
from placerl.primitives.learner.native.calls import NativeCalls


class NativeFixedPointLearner(FixedPointLearner, NativeCalls):
    """A fixed-point learner on the native executor; created by `primitives.learner.create`."""

    def step(
        self, batch: Mapping[str, Array], weights: Array | None = None, *, variant: str | None = None
    ) -> StepOutcome:
        """Take one gradient step in fixed point, and return TD errors and losses."""
        self.narrow_when_due()
        return super().step(batch, weights, variant=variant)

    def prepare_steps(self, count: int) -> int:
        """Return how many of the next `count` gradient steps may be taken in one call.

        After `precision.delay` gradient steps a call must end, because products then begin to quantise their operands.
        """
        self.narrow_when_due()
        left = self.precision.delay - self.gradient_steps
        return min(count, left) if left > 0 else count

    def _act(self, observation: Array) -> Array:
        return self._acted(ACT, observation, {})
