"""Turns the results of a comparison with one library into rows: rates, returns, and the ratio of the rates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from placerl.harness.compare import equal_steps
from placerl.harness.compare.equal_steps import Returns
from placerl.harness.compare.parts import ENVIRONMENT_STEPS_PER_S, OURS, ComparedPart
from placerl.harness.compare.protocol import FailureKind, WorkerResult
from placerl.harness.compare.system import System
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import is_on_policy
from placerl.harness.measure import rows as summary_rows
from placerl.harness.measure import statistics
from placerl.harness.measure.statistics import Comparison
from placerl.harness.store.rows import ComparisonResult
from placerl.harness.workloads import Workload

REPLAY_CALLS = ("insert", "sample", "update")
"""Calls of a replay whose seconds a worker reports (`WorkerResult.terms_s`) if replays alone are compared."""


class ComparisonRows:
    """The rows of this project compared with one baseline."""

    def __init__(
        self,
        workload: Workload,
        batch_size: int,
        ours: System,
        theirs: System,
        shared: dict[str, Any],
        part: ComparedPart,
        name: str,
        returns: Returns,
    ) -> None:
        self._workload, self._batch_size = workload.name, batch_size
        self._ours, self._theirs = ours, theirs
        self._part, self._returns = part, returns
        self._rate = "replay_cycles_per_s" if part is ComparedPart.REPLAY else "gradient_steps_per_s"
        # Where PPO's gradient steps stop early, some libraries stop both networks and this project the policy alone:
        # only its environment steps are the same work on both sides.
        self._judged = ENVIRONMENT_STEPS_PER_S if is_on_policy(workload) else self._rate
        self._columns = {"baseline": name} | shared

    def all(self) -> list[ComparisonResult]:
        """Return both systems' rates and returns, and the ratio of their rates."""
        rows: list[ComparisonResult] = []
        for part, system in (("ours", self._ours), ("theirs", self._theirs)):
            rows += self._system(part, system)
        if not self._ours.failure and not self._theirs.failure:
            rows += [*self._learnt(), *self._ratios()]
        return rows

    def _common(self, system: str, quantity: str, columns: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that every kind of row has."""
        return {
            "suite": Suite.COMPARE,
            "workload": self._workload,
            "primitive": str(self._part),
            "system": system,
            "device": self._theirs.job.device,
            "batch_size": self._batch_size,
            "quantity": quantity,
            **self._columns,
            **columns,
        }

    def _row(self, system: str, quantity: str, columns: dict[str, Any], **fields: Any) -> ComparisonResult:
        common = self._common(system, quantity, columns)
        return ComparisonResult(**common, provenance=Provenance.MEASURED, **fields)

    def _system(self, part: str, system: System) -> list[ComparisonResult]:
        columns: dict[str, Any] = {"part": part}
        if system.failure:
            columns |= {"failure": str(system.failure.kind), "last_lines": list(system.failure.last_lines)}
            refused = system.failure.kind is FailureKind.REFUSED
            reason = f"{system.name}: {system.failure}"
            if refused:  # nothing is broken: the system cannot do what the workload requires
                reason = f"not run: {system.name} cannot do it: {system.failure.detail}"
            status = "not_run" if refused else "failed"
            return [self._row(system.name, self._rate, columns, status=status, reason=reason)]
        results = system.timed
        if not results:  # the other side failed before the first round
            return []
        first = results[0]
        columns |= {
            "versions": first.versions,
            "deviations": first.notes,
            "start_s": system.start_s,
            "gradient_steps": sum(result.gradient_steps for result in results),
            "environment_steps": sum(result.environment_steps for result in results),
        }

        def summary(
            quantity: str, samples: list[float], of: str = "", whole: float = 0.0
        ) -> ComparisonResult:
            common = self._common(system.name, quantity, columns | {"part": part + of})
            return summary_rows.summary_row(ComparisonResult, samples, whole=whole, **common)

        rows = [summary(self._rate, [result.gradient_steps / result.wall_s for result in results])]
        if self._part is not ComparedPart.LEARNER_AND_REPLAY:
            rates = [result.environment_steps / result.wall_s for result in results]
            rows.append(summary(ENVIRONMENT_STEPS_PER_S, rates, ", environment"))
        if self._part is ComparedPart.REPLAY:
            for call in REPLAY_CALLS:
                rates = [
                    (result.environment_steps if call == "insert" else result.gradient_steps) / seconds
                    for result in results
                    if (seconds := result.terms_s.get(call, 0.0)) > 0
                ]
                if rates:
                    rows.append(summary(f"{call}s_per_s", rates, f", {call}s"))
        elif self._part is ComparedPart.TRAINING:
            for term in dict.fromkeys(term for result in results for term in result.terms_s):
                shares = [result.terms_s.get(term, 0.0) / result.wall_s for result in results]
                rows.append(summary("fraction_of_time", shares, f", {term}, of the time", whole=1.0))
        returns = [value for result in results for value in result.episode_returns]
        if returns:
            rows.append(self._returned(system.name, columns | {"part": f"{part}, episodes"}, returns))
        return rows

    def _returned(self, system: str, columns: dict[str, Any], returns: list[float]) -> ComparisonResult:
        """Return the row of the episodes' returns. They may be negative, so a wide interval is not "too noisy"."""
        low, high = None, None
        if len(returns) >= statistics.FEWEST_SAMPLES:
            low, high = statistics.interval(returns, in_order=True)
        value = float(np.median(returns))
        return self._row(
            system, "episode_return", columns, value=value, low=low, high=high, samples=tuple(returns)
        )

    def _learnt(self) -> list[ComparisonResult]:
        """Return the mean return of both after the same number of environment steps, and their difference."""
        returns = self._returns
        rows = []
        for part, system, side in (
            ("ours", self._ours, returns.ours),
            ("theirs", self._theirs, returns.theirs),
        ):
            if side and all(one.last for one in side):
                columns: dict[str, Any] = {
                    "part": f"{part}, return",
                    "seeds": [one.seed for one in side],
                    "steps_by_seed": [one.environment_steps for one in side],
                    "episodes_by_seed": [len(one.last) for one in side],
                }
                samples = tuple(float(np.mean(one.last)) for one in side)
                rows.append(
                    self._mean(system.name, equal_steps.RETURN, columns, equal_steps.mean(side), samples)
                )
        if not returns.reason:
            columns = {"part": equal_steps.DIFFERENCE, "environment_steps": returns.environment_steps}
            rows.append(self._mean(OURS, equal_steps.DIFFERENCE, columns, returns.difference()))
        return rows

    def _mean(
        self,
        system: str,
        quantity: str,
        columns: dict[str, Any],
        mean: equal_steps.Mean,
        samples: tuple[float, ...] = (),
    ) -> ComparisonResult:
        low, high = mean.low, mean.high
        return self._row(system, quantity, columns, value=mean.value, low=low, high=high, samples=samples)

    def _ratios(self) -> list[ComparisonResult]:
        """Return this project's throughput over the baseline's, and over its own."""
        sides = self._ours.results, self._theirs.results, self._ours.again
        if all(self._steps(result) for side in sides for result in side):
            outcome = statistics.compare(*map(self._step_times_s, sides))
        else:
            reason = "a job of a timed round took no environment steps"
            outcome = Comparison(None, None, "no verdict", reason, len(self._ours.results))
        parts = (("throughput_ratio", outcome.ratio), ("null_ratio", outcome.null))
        columns = {
            "pairs": outcome.pairs,
            "verdict": self._returns.verdict(outcome.verdict),
            "why_no_verdict": outcome.reason,
            "returns": str(self._returns),
        }
        if self._judged != self._rate:
            columns["rate"] = self._judged
        rows = []
        for quantity, times in parts:
            if times is None:
                unknown = {"status": "not_run", "reason": outcome.reason}
                rows.append(self._row(OURS, quantity, columns | {"part": quantity}, **unknown))
                continue
            common = self._common(OURS, quantity, columns | {"part": quantity})
            rows.append(summary_rows.gain(ComparisonResult, times, **common))
        return rows

    def _steps(self, result: WorkerResult) -> int:
        """Return the steps of a job that count for its throughput."""
        return result.environment_steps if self._judged == ENVIRONMENT_STEPS_PER_S else result.gradient_steps

    def _step_times_s(self, results: Sequence[WorkerResult]) -> list[float]:
        """Return seconds per step that counts in each round, including the whole loop."""
        return [result.wall_s / self._steps(result) for result in results]
