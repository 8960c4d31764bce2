"""A machine's clock that tests move by hand, with those of two simulated devices."""

from placerl.harness.loop.clock import LEARNER, RMM
from placerl.harness.loop.virtual_time import Device, VirtualTime


class HandClock:
    """Stands in for the machine's clock and for those of two simulated devices."""

    def __init__(self):
        self.host_s, self.waited_s, self.told_s = 1000.0, 0.0, {LEARNER: 0.0, RMM: 0.0}

    def work(self, host_s=0.0, waited_s=0.0, **told_s):
        """Work that takes so long on the host, waits so long for a core, and tells so long of a device."""

        def do():
            self.host_s += host_s + waited_s
            self.waited_s += waited_s
            for unit, seconds in told_s.items():
                self.told_s[unit] += seconds
            return "value"

        return do


def virtual(clock, links=None, one_board=False):
    names = ("board", "board") if one_board else ("gpu", "fpga")
    devices = {
        unit: Device(lambda unit=unit: clock.told_s[unit], name)
        for unit, name in zip((LEARNER, RMM), names, strict=True)
    }
    return VirtualTime(devices, links or {})
