"""Bundles as honest people would send them: rows of a committed run, resampled within their noise."""

from dataclasses import replace
from functools import cache

import numpy as np

from placerl.harness.core.suites import Suite
from placerl.harness.machines.bundle import Bundle, bundle
from placerl.harness.store import reference
from placerl.harness.store.rows import PieceTime
from tests.harness.machines.example_cards import FIGURES, a_card


@cache
def committed() -> tuple[PieceTime, ...]:
    """Return the rows of a committed profile of two workloads: counting the work of each takes a second."""
    loaded = reference.load(kept=lambda table: table["suite"] == Suite.PROFILE)
    (quick,) = (one for one in loaded if one.name == "quick")
    rows = [row for row in quick.measurements if isinstance(row, PieceTime)]
    rows = [row for row in rows if row.workload in ("cartpole-dqn", "hopper-ddpg")]
    return tuple(row for row in rows if row.value is not None and len(row.samples) >= 5)


def honest(seed: int, count: int = 4) -> Bundle:
    """Return a bundle of `count` rows that are drawn from the committed ones, and of a card that moves as they do."""
    rng = np.random.default_rng(seed)
    rows = []
    for place in rng.choice(len(committed()), count, replace=False):
        row = committed()[place]
        samples = rng.choice(row.samples, len(row.samples)) * rng.lognormal(0, 0.02, len(row.samples))
        low, value, high = np.quantile(samples, (0.1, 0.5, 0.9))
        rows.append(
            replace(row, samples=tuple(samples), value=float(value), low=float(low), high=float(high))
        )
    jitter = rng.lognormal(0, 0.03, len(FIGURES))
    return bundle(
        a_card(**{name.replace(".", "_"): factor for name, factor in zip(FIGURES, jitter, strict=True)}), rows
    )
