"""A simulated core whose hardware is shared: full speed and a slower one by turns, on a clock of its own."""

import numpy as np

from placerl.harness.measure.pace import Bracket
from placerl.harness.measure.protocol import Case

KERNEL_S = 5e-6


class SharedCore:
    """Work takes `slowdown` times as long while the core is shared.

    Args:
        fast_s, slow_s: mean lengths of the two speeds' stretches, exponentially distributed.
        slowdown: of the slower speed.
        steps: clock frequencies, each kept for about 50 ms.
        seed: of all that is random.
    """

    def __init__(self, fast_s=20e-3, slow_s=10e-3, slowdown=1.7, steps=(1.0, 0.94), seed=0):
        self.rng = np.random.default_rng(seed)
        self.stretches_s, self.slowdown, self.steps = (fast_s, slow_s), slowdown, steps
        self.now_s, self.slow, self.frequency = 0.0, False, 1.0
        self.turns_s, self.shifts_s = 0.0, 0.0

    def clock(self):
        return self.now_s

    def work(self, seconds):
        """Advances the clock by work that takes so long at full speed."""
        while True:
            while self.now_s >= self.turns_s:
                self.slow = not self.slow
                self.turns_s += self.rng.exponential(self.stretches_s[self.slow]) + 1e-9
            if self.now_s >= self.shifts_s:
                self.frequency = self.rng.choice(self.steps)
                self.shifts_s = self.now_s + self.rng.exponential(50e-3)
            rate = self.frequency / (self.slowdown if self.slow else 1.0)
            left_s = self.turns_s - self.now_s
            if seconds <= left_s * rate:
                self.now_s += seconds / rate
                return
            seconds -= left_s * rate
            self.now_s = self.turns_s

    def bracket(self):
        return Bracket(self.clock, lambda: self.work(KERNEL_S))

    def case(self, name, call_s, spread=0.02):
        """Calls that take `call_s` at full speed, with one-sided noise of a piece each."""

        def call(state, arguments):
            self.work(call_s * np.exp(abs(self.rng.normal(0, spread))))

        return Case(name, lambda: None, lambda _: None, lambda _, rng: None, call)
