"""Names the devices that are simulated, and the platforms that state their clock frequencies."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SimulatedDevice:
    """A simulated device, given by the platform that states its clock frequency.

    Attributes:
        platform: name of the platform (`harness.platforms`), such as "fixar21".
        key: key of the device in that platform, such as "fpga".
        note: why this platform's frequency is used.
    """

    platform: str
    key: str
    note: str


DEVICES = {
    "fpga:u200": SimulatedDevice(
        "ppoaccel", "fpga", "MAP gives no clock for its U200; PPO's design is on one too"
    ),
    "fpga:u50": SimulatedDevice("fixar21", "fpga", "FIX's design"),
}
