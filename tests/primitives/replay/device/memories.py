"""Every kind of device memory, for the conformance suite."""

import pytest

from placerl.primitives.device import Device
from placerl.primitives.replay import device
from tests.primitives.device import kinds

REASONS = {status.name: status.reason for status in device.backends()}
every_memory = kinds.every_kind


def memory(kind: str) -> Device:
    """The memory, or a skipped test where it is missing."""
    if kind not in REASONS:  # no backend, but a device
        return kinds.device_of(kind)
    if REASONS[kind]:
        pytest.skip(REASONS[kind])
    return device.memory(kind)
