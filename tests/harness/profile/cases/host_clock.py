"""A host's clock that tests move."""

READING_S = 1e-7


class HostClock:
    """A clock that only its readings and the tests advance, so that no neighbour on the machine does."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        self.now_s += READING_S
        return self.now_s
