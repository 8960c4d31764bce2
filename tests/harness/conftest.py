"""Settings of the harness's tests."""

from collections.abc import Iterator

import pytest

from placerl.harness.profile.cases import trained


@pytest.fixture(scope="session", autouse=True)
def _short_training_before_a_profile() -> Iterator[None]:
    """Let learners be timed after few gradient steps: no test reads the times."""
    patch = pytest.MonkeyPatch()
    patch.setattr(trained, "STEPS", 60)
    patch.setattr(trained, "FILL", 300)
    yield
    patch.undo()
