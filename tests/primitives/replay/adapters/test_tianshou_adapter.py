"""The buffers, compared with tianshou's own in tianshou's environment."""

from tests.primitives.replay.adapters.library_checks import suite

ask, test_tianshou = suite("tianshou", "tianshou_checks.py")
