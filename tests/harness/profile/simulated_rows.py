"""Rows of simulated devices for tests, and whether this machine can simulate the hardware."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Measurement
from placerl.harness.mapping import Target
from placerl.primitives import learner

FPGA = next(status for status in learner.backends() if status.name == "fpga")


def row(primitive: str, target: str, seconds: float) -> Measurement:
    return Measurement(
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
