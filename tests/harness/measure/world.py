"""A machine whose clock only the cases of a test move."""

from placerl.harness.measure.protocol import Case, Protocol, measure


class World:
    """A machine with a clock of its own, which only the cases of a test move."""

    def __init__(self):
        self.now_s = 0.0
        self.log = []

    def clock(self):
        return self.now_s

    def case(self, name, time_s=1e-4, **change):
        """`time_s`: seconds a call, or a function of nothing that gives them."""

        def call(state, arguments):
            self.log.append(name)
            self.now_s += time_s() if callable(time_s) else time_s

        fields = {
            "setup": lambda: self.log.append(f"setup {name}"),
            "check": lambda state: self.log.append(f"check {name}"),
            "inputs": lambda state, rng: rng.random(),
            "call": call,
            "close": lambda state: self.log.append(f"close {name}"),
        }
        return Case(name, **fields | change)

    def failing_after(self, calls, time_s=2e-3):
        """A call for `case` that takes some seconds, and fails once it was made that often."""
        left = iter(range(calls))

        def call(state, arguments):
            if next(left, None) is None:
                raise MemoryError("no room")
            self.now_s += time_s

        return call

    def measure(self, *cases, **protocol):
        return measure(cases, Protocol(**{"rounds": 7, "warm_up_s": 0.0} | protocol), clock=self.clock)
