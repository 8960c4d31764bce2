"""The buffer, compared with PFRL's own in PFRL's environment."""

from tests.primitives.replay.adapters.library_checks import suite

ask, test_pfrl = suite("pfrl", "pfrl_checks.py")
