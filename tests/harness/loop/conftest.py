"""The clock that tests of clocks move by hand."""

import pytest

from placerl.harness.loop import real_time, virtual_time
from placerl.harness.measure import full_speed
from tests.harness.loop.hand_clock import HandClock


@pytest.fixture
def clock(monkeypatch):
    made = HandClock()
    for module in (real_time, virtual_time, full_speed):
        monkeypatch.setattr(module, "perf_counter", lambda: made.host_s)
    monkeypatch.setattr(full_speed, "waited_s", lambda: made.waited_s)
    return made
