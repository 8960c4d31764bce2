"""The site shows the fields of workloads' and platforms' files, and CONTRIBUTING.md."""

from pathlib import Path

import pytest

from placerl.harness.cli import site_pages
from placerl.harness.core.toml_models import TomlTable
from placerl.harness.platforms import PlatformFile
from placerl.harness.workloads import Workload

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("model", [Workload, PlatformFile])
def test_every_field_of_a_file_has_a_row(model: type[TomlTable]) -> None:
    shown = site_pages.on_page_markdown((DOCS / "files.md").read_text())
    assert "<!--" not in shown
    assert f"### {model.__name__}\n" in shown
    assert all(f"\n| `{field}` | " in shown for field in model.model_fields)


def test_a_row_says_type_limits_default_and_meaning() -> None:
    shown = "\n".join(site_pages.tables(Workload))
    assert (
        "| `alpha` | number, at least `0`, at most `1` | `0.6` | exponent of the priority; 0 is uniform |"
        in shown
    )
    assert (
        "| `capacity` | integer, at least `2`, at most `2147483648` | required | transitions stored" in shown
    )
    assert "| `environment` | Environment | required |" in shown
    platform = "\n".join(site_pages.tables(PlatformFile))
    assert "| `kind` | `cpu`, `gpu`, `fpga` | required |" in platform
    assert "| `cores` | SourcedCount |  | cores, or compute units |" in platform


def test_contributing_is_a_page_whose_links_are_those_of_the_site() -> None:
    shown = site_pages.on_page_markdown((DOCS / "contributing.md").read_text())
    assert "## Add a platform" in shown
    assert "](docs/" not in shown
