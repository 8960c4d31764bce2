"""Settings of the harness's tests."""

from collections.abc import Iterator

import pytest
from markupsafe import Markup

from placerl.harness.profile.cases import trained


@pytest.fixture(scope="session", autouse=True)
def _short_training_before_a_profile() -> Iterator[None]:
    """Let learners be timed after few gradient steps: no test reads the times."""
    patch = pytest.MonkeyPatch()
    patch.setattr(trained, "STEPS", 60)
    patch.setattr(trained, "FILL", 300)
    yield
    patch.undo()


@pytest.fixture
def plots_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves a report's plots empty: drawing them takes most of its time, and the test reads the rest."""
    from placerl.harness.report import plots, roofline_plot

    for module in (plots, roofline_plot):
        monkeypatch.setattr(module, "svg", lambda figure, name, description: Markup('<svg role="img"></svg>'))
