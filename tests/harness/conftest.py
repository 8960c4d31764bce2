"""Settings of the harness's tests."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from markupsafe import Markup

from placerl.harness.platforms import this_machine
from placerl.harness.profile.cases import trained


@pytest.fixture(scope="session", autouse=True)
def _short_measurements() -> Iterator[None]:
    """Let learners be timed after few gradient steps, and links with little memory: no test reads the times."""
    patch = pytest.MonkeyPatch()
    patch.setattr(trained, "STEPS", 60)
    patch.setattr(trained, "FILL", 300)
    patch.setattr(this_machine, "_LINK_BYTES", 2**20)
    yield
    patch.undo()


@pytest.fixture
def pages_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves a report's pages out: the test reads what a command prints of the report."""
    from placerl.harness.report import site

    monkeypatch.setattr(site, "_write_platform", lambda folder, *_: folder / "index.html")


@pytest.fixture
def plots_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves a report's plots empty: drawing them takes most of its time, and the test reads the rest."""
    from placerl.harness.report import plots, roofline_plot

    for module in (plots, roofline_plot):
        monkeypatch.setattr(module, "svg", lambda figure, name, description: Markup('<svg role="img"></svg>'))


@pytest.fixture
def one_claim_s_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the pages of all claims but MAP-F13, of which there are more than of anything else in a report."""
    from placerl.harness.report import pages

    render = pages.render_claims

    def alone(content: Any, *more: Any) -> Iterator[tuple[str, str]]:
        (verdict,) = (one for one in content.verdicts if one.key == "MAP-F13")
        return render(replace(content, verdicts=(verdict,)), *more)

    monkeypatch.setattr(pages, "render_claims", alone)
