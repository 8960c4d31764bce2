"""Training under a mapping, as measurements: throughput in stretches, and episode returns over time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Interrupted, Measurement
from harness.mapping import Mapping
from harness.mapping.metrics import per_watt
from harness.measure import statistics
from harness.measure.conditions import conditions
from harness.platforms.energy import EnergyMeter, meter_of
from harness.runtime.compose import Fusion
from harness.runtime.on_policy import start
from harness.runtime.options import STRICT, Options
from harness.runtime.training import Progress
from harness.workloads import Workload

STRETCH_S = 0.5  # long against the clock and one episode's reset, short against the machine's drift


class Trains(Protocol):
    """What is measured of a training, in this process or on a cluster."""

    @property
    def fusion(self) -> Fusion: ...

    @property
    def provenance(self) -> Provenance: ...

    def warm_up(self) -> Progress: ...

    def advance(self, gradient_steps: int) -> Progress: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Extent:
    """How long a run is; its warm-up is not counted.

    Attributes:
        seconds: of training.
        steps: gradient steps, at least, instead of the seconds.
    """

    seconds: float = 30.0
    steps: int | None = None

    def share(self, begun_s: float, gradient_steps: int) -> float:
        """How much of it is done, 1 where all is."""
        if self.steps is not None:
            return gradient_steps / self.steps
        return (time.perf_counter() - begun_s) / self.seconds


@dataclass
class _Run:
    """A training run under way: what its rows are made of."""

    workload: Workload
    mapping: Mapping
    batch_size: int
    details: dict[str, object]
    provenance: Provenance = Provenance.MEASURED
    warm_up: Progress | None = None
    stretches: list[Progress] = field(default_factory=list)
    meter: EnergyMeter | None = None
    watts: list[float | None] = field(default_factory=list)  # by stretch

    def rows(self) -> list[Measurement]:
        """Throughput, and the returns of the episodes that ended; none before the first stretch has ended."""
        made = [self._throughput(quantity) for quantity in ("gradient_steps", "environment_steps")]
        return [row for row in (*made, self._per_watt(), self._returns()) if row]

    def failure(self, error: BaseException) -> Measurement:
        """The row that says how the run ended."""
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        return self._row(quantity="failure", status="failed", reason=reason)

    def _row(self, **values: Any) -> Measurement:
        return Measurement(
            suite="run",
            workload=self.workload.name,
            primitive="training",
            backend="placerl",
            device=str(self.mapping),
            batch_size=self.batch_size,
            provenance=self.provenance,
            **{"details": self.details | self._counts()} | values,
        )

    def _counts(self) -> dict[str, object]:
        done = [*([self.warm_up] if self.warm_up else []), *self.stretches]
        return {
            "gradient_steps": sum(stretch.gradient_steps for stretch in self.stretches),
            "environment_steps": sum(stretch.environment_steps for stretch in done),
            "wall_s": sum(stretch.wall_s for stretch in self.stretches),
            "terms_s": _terms_a_gradient_step(self.stretches),
        }

    def _throughput(self, quantity: str) -> Measurement | None:
        timed = self.stretches[1:] or self.stretches  # the first, of a single step, only sizes the rest
        samples = [getattr(stretch, quantity) / stretch.wall_s for stretch in timed]
        if not samples:
            return None
        value, low, high = _median(samples)
        return self._row(
            quantity=f"{quantity}_per_s", value=value, low=low, high=high, samples=tuple(samples)
        )

    def _per_watt(self) -> Measurement | None:
        if self.meter is None or not self.stretches:
            return None
        quantity = {"quantity": "throughput_per_watt"}
        both = list(zip(self.stretches, self.watts, strict=False))  # Ctrl-C may come between the two
        timed = [(stretch, watts) for stretch, watts in both[1:] or both if watts]
        if not timed:
            reason = self.meter.reason or "a run longer than the steps of its counters"
            return self._row(**quantity, status="not_run", reason=f"not run: needs watts: {reason}")
        samples = [per_watt(stretch.gradient_steps / stretch.wall_s, watts) for stretch, watts in timed]
        value, low, high = _median(samples)
        details = self.details | self._counts()
        details["watts"] = float(np.median([watts for _, watts in timed]))
        details["counters"] = [counter.name for counter in self.meter.counters]
        return self._row(**quantity, value=value, low=low, high=high, samples=tuple(samples), details=details)

    def _returns(self) -> Measurement | None:
        done = [*([self.warm_up] if self.warm_up else []), *self.stretches]
        episodes = [episode for stretch in done for episode in stretch.episodes]
        if not episodes:
            return None
        returns = tuple(episode.episode_return for episode in episodes)
        steps = [episode.environment_step for episode in episodes]
        value, low, high = _median(returns)
        details = self.details | self._counts() | {"environment_step": steps}
        return self._row(
            quantity="episode_return",
            value=value,
            low=low,
            high=high,
            samples=returns,
            details=details,
        )


def train(
    workload: Workload,
    mapping: Mapping,
    batch_size: int,
    seed: int,
    extent: Extent,
    report: Report,
    options: Options = STRICT,
) -> list[Measurement]:
    """Train for a time and measure it.

    Args:
        workload: what to train.
        mapping: which backend and device runs what.
        batch_size: transitions in a gradient step.
        seed: of everything random.
        extent: when to end.
        report: called with the progress.
        options: how the mapping is run.

    Returns:
        Rows of suite `run`, of the training's provenance: gradient steps and environment steps per second (a sample a
        stretch of about half a second, warm-up excluded), gradient steps per second and watt (not run where the
        energy of a device cannot be read) and the returns of all episodes that ended. Where a unit dies on the
        way, what was measured until then, and a row that failed with its name and error.

    Raises:
        UserError: something does not fit together, or is not installed.
        Interrupted: by Ctrl-C, with the rows of the stretches that had ended, and a row that says so.
    """
    training = start(workload, mapping, batch_size=batch_size, seed=seed, options=options)
    meter = meter_of(mapping.devices, simulated=training.provenance is not Provenance.MEASURED)
    return measured(training, workload, mapping, batch_size, seed, extent, report, options, meter)


def measured(
    training: Trains,
    workload: Workload,
    mapping: Mapping,
    batch_size: int,
    seed: int,
    extent: Extent,
    report: Report,
    options: Options = STRICT,
    meter: EnergyMeter | None = None,
) -> list[Measurement]:
    """As `train`, of a training that has been made; closes it. Without a meter there is no row per watt."""
    run = _Run(
        workload,
        mapping,
        batch_size,
        {
            "mapping": str(mapping),
            "fusion": str(training.fusion),
            "seed": seed,
            "threads": options.threads,
            "options": options.given(),
            "conditions": conditions(),
        },
        training.provenance,
        meter=meter,
    )
    try:
        report(0, 1, "filling the replay")
        run.warm_up = training.warm_up()
        _stretches(training, run, extent, report)
    except Exception as error:  # whatever a unit died of: what was measured before is kept
        return [*run.rows(), run.failure(error)]
    except KeyboardInterrupt as error:
        raise Interrupted([*run.rows(), run.failure(error)] if run.stretches else []) from error
    finally:
        training.close()
    return run.rows()


def _stretches(training: Trains, run: _Run, extent: Extent, report: Report) -> None:
    steps, size, begun_s = 0, 1, time.perf_counter()
    while (share := extent.share(begun_s, steps)) < 1:
        report(share, 1, "training")
        if extent.steps is not None:
            size = min(size, extent.steps - steps)
        if run.meter:
            run.meter.begin()
        begin_s = time.perf_counter()
        stretch = training.advance(size)
        took_s = time.perf_counter() - begin_s  # in virtual time not `stretch.wall_s`
        spent_j = run.meter.spent_j() if run.meter else None
        run.watts.append(None if spent_j is None else spent_j / took_s)
        run.stretches.append(stretch)
        steps += stretch.gradient_steps
        size = max(1, round(STRETCH_S * stretch.gradient_steps / took_s))


def _terms_a_gradient_step(stretches: list[Progress]) -> dict[str, float]:
    steps = sum(stretch.gradient_steps for stretch in stretches)
    names = stretches[0].terms_s if stretches else {}
    return {name: sum(stretch.terms_s[name] for stretch in stretches) / steps for name in names}


def _median(samples: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The median and its 95% interval, which fewer than `statistics.FEWEST_SAMPLES` samples do not have."""
    interval = statistics.interval(samples) if len(samples) >= statistics.FEWEST_SAMPLES else (None, None)
    return float(np.median(samples)), *interval
