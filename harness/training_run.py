"""Training under a mapping, as measurements: throughput in stretches, and episode returns over time."""

import time
from collections.abc import Sequence

import numpy as np

from harness import comparison
from harness.conditions import conditions
from harness.mapping import Mapping
from harness.measurement import Measurement
from harness.progress import Report
from harness.provenance import Provenance
from harness.runtime.on_policy import OnPolicyTraining, start
from harness.runtime.training import Progress, Training
from harness.workload import Workload

STRETCH_S = 0.5  # long against the clock and one episode's reset, short against the machine's drift


def train(
    workload: Workload,
    mapping: Mapping,
    batch_size: int,
    seed: int,
    seconds: float,
    report: Report,
    threads: int = 1,
) -> list[Measurement]:
    """Train for a time and measure it.

    Args:
        workload: what to train.
        mapping: which backend and device runs what.
        batch_size: transitions in a gradient step.
        seed: of everything random.
        seconds: training time after the warm-up.
        report: called with the progress.
        threads: that the learner may use.

    Returns:
        Rows of suite `run`, simulated where a part of the mapping is: gradient steps and environment steps per
        second (a sample a stretch of about half a second, warm-up excluded) and the returns of all episodes
        that ended.
    """
    training = start(workload, mapping, batch_size=batch_size, seed=seed, threads=threads)
    try:
        report(0, seconds, "filling the replay")
        warm_up = training.warm_up()
        stretches = _stretches(training, seconds, report)
    finally:
        training.close()
    details = {
        "mapping": str(mapping),
        "fusion": str(training.fusion),
        "seed": seed,
        "threads": threads,
        "conditions": conditions(),
        "gradient_steps": sum(stretch.gradient_steps for stretch in stretches),
        "environment_steps": training.environment_steps,
        "wall_s": sum(stretch.wall_s for stretch in stretches),
        "terms_s": _terms_a_gradient_step(stretches),
    }
    rows = [
        _throughput(workload, mapping, batch_size, quantity, samples, details, training.provenance)
        for quantity, samples in (
            ("gradient_steps_per_s", [stretch.gradient_steps / stretch.wall_s for stretch in stretches]),
            (
                "environment_steps_per_s",
                [stretch.environment_steps / stretch.wall_s for stretch in stretches],
            ),
        )
    ]
    episodes = [episode for stretch in (warm_up, *stretches) for episode in stretch.episodes]
    if episodes:
        returns = tuple(episode.episode_return for episode in episodes)
        steps = [episode.environment_step for episode in episodes]
        value, low, high = _median(returns)
        rows.append(
            Measurement(
                suite="run",
                workload=workload.name,
                primitive="training",
                backend="placerl",
                device=str(mapping),
                batch_size=batch_size,
                quantity="episode_return",
                unit="1",
                provenance=training.provenance,
                value=value,
                low=low,
                high=high,
                samples=returns,
                details=details | {"environment_step": steps},
            )
        )
    return rows


def _stretches(training: Training | OnPolicyTraining, seconds: float, report: Report) -> list[Progress]:
    stretches: list[Progress] = []
    gradient_steps = 1
    begin_s = time.perf_counter()
    while (elapsed_s := time.perf_counter() - begin_s) < seconds:
        report(elapsed_s, seconds, "training")
        stretch_begin_s = time.perf_counter()
        stretch = training.advance(gradient_steps)
        stretches.append(stretch)
        took_s = time.perf_counter() - stretch_begin_s  # in virtual time not `stretch.wall_s`
        gradient_steps = max(1, round(STRETCH_S * stretch.gradient_steps / took_s))
    return stretches[1:] or stretches  # the first, of a single step, only sizes the rest


def _terms_a_gradient_step(stretches: list[Progress]) -> dict[str, float]:
    steps = sum(stretch.gradient_steps for stretch in stretches)
    names = stretches[0].terms_s if stretches else {}
    return {name: sum(stretch.terms_s[name] for stretch in stretches) / steps for name in names}


def _throughput(
    workload: Workload,
    mapping: Mapping,
    batch_size: int,
    quantity: str,
    samples: list[float],
    details: dict[str, object],
    provenance: Provenance,
) -> Measurement:
    value, low, high = _median(samples)
    return Measurement(
        suite="run",
        workload=workload.name,
        primitive="training",
        backend="placerl",
        device=str(mapping),
        batch_size=batch_size,
        quantity=quantity,
        unit="1/s",
        provenance=provenance,
        value=value,
        low=low,
        high=high,
        samples=tuple(samples),
        details=details,
    )


def _median(samples: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The median and its 95% interval, which fewer than `comparison.FEWEST_SAMPLES` samples do not have."""
    interval = comparison.interval(samples) if len(samples) >= comparison.FEWEST_SAMPLES else (None, None)
    return float(np.median(samples)), *interval
