"""Every kind of replay, over a storage with room for 8 items."""

from placerl.primitives.replay import ConcurrentReplay, PrioritizedReplay, UniformReplay
from tests.primitives.replay.fake_tree import FakeTree

KINDS = {
    "uniform": UniformReplay,
    "prioritized": lambda storage: PrioritizedReplay(storage, FakeTree(8)),
    "concurrent": ConcurrentReplay,
}
