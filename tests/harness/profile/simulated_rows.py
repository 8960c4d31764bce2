"""Rows of simulated devices for tests, and whether this machine can simulate the hardware."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import Target
from placerl.primitives import learner
from tests.harness.old_form import row_of

FPGA = next(status for status in learner.backends() if status.name == "fpga")


def row(primitive: str, target: str, seconds: float) -> Row:
    return row_of(
        suite="profile",
        workload="hopper-ddpg",
        primitive=primitive,
        backend=Target.parse(target).backend,
        device=Target.parse(target).device,
        batch_size=256,
        quantity="time_per_call",
        unit="s",
        provenance=Provenance.MEASURED,
        value=seconds,
        details={"target": target},
    )
