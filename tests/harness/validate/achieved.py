"""What mappings achieved, made up, for the tests of a validation's rows."""

from types import MappingProxyType
from typing import Any

import numpy as np

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import Loop, Mapping
from placerl.harness.measure.statistics import Samples
from placerl.harness.validate.narrowing import Dropped
from placerl.harness.validate.regret import regrets
from placerl.harness.validate.rows import Achieved
from tests.harness.old_form import replace, row_of


def unmoved(*samples_s: float) -> Samples:
    """Samples as the clock had them."""
    return Samples(np.array(samples_s), np.zeros(len(samples_s)))


def training_row(device: str, value: float, **fields: Any) -> Row:
    """A row of a validation: gradient steps a second of a mapping."""
    base: dict[str, Any] = {
        "suite": "validation",
        "workload": "hopper-ddpg",
        "primitive": "training",
        "backend": "placerl",
        "quantity": "gradient_steps_per_s",
        "unit": "1/s",
        "provenance": Provenance.MEASURED,
        "details": {"terms_s": {}},
    }
    return row_of(**(base | fields), device=device, batch_size=32, value=value)


def ran(mapping: str, *gps: float, loop: Loop = Loop.FUSED, simulated: bool = False) -> Achieved:
    """What a mapping reached in each round, in gradient steps a second."""
    provenance = Provenance.SIMULATED if simulated else Provenance.MEASURED
    row = training_row(mapping, float(np.median(gps)), provenance=provenance)
    return Achieved(Mapping.parse(mapping), loop, row, dict(enumerate(gps)))


def choice(mapping: str, *among: str, loop: Loop = Loop.FUSED) -> Row:
    """A prediction that a strategy chose among these devices."""
    row = ran(mapping, 1.0).row
    of = {"chosen_among": list(among), "loop": str(loop)}
    return replace(row, suite="prediction", backend="a strategy", details=of)


PACE = (1.0, 1.3, 0.8, 1.1, 0.9, 1.2, 1.0, 0.7, 1.05, 0.95)
"""Of a machine that others use too, by round."""

NEVER_FUSED = "native-flat-cpu"


def regrets_of(chosen: Row, *found: Achieved, dropped: Dropped = MappingProxyType({})) -> list[Row]:
    """The regret of one strategy's choice among these, of which races dropped some."""
    return regrets([chosen], {(str(one.mapping), one.loop): one for one in found}, dropped)
