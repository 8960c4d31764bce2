"""The page of options: every command and every option is on it, and each option says what it does."""

import re
from pathlib import Path

import pytest

from placerl.harness.cli import bench_command, options_page
from placerl.harness.cli.app import commands

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def page() -> str:
    return options_page.on_page_markdown((ROOT / "docs" / "options.md").read_text(encoding="utf-8"))


def section(page: str, name: str) -> str:
    return re.split(rf"^#+ {name}$", page, flags=re.MULTILINE)[1].partition("\n#")[0]


def test_the_page_has_a_section_of_every_command_and_benchmark(page: str) -> None:
    headings = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
    benchmarks = {f"bench {name}" for name in bench_command.names()}
    assert set(headings) == {*commands(), *benchmarks, "explore map", "explore ppo"}
    assert len(headings) == len(set(headings))
    assert options_page.PLACE not in page


def test_a_row_has_the_option_what_it_does_and_its_default_and_range(page: str) -> None:
    run = section(page, "run")
    assert "placerl run [OPTIONS] {WORKLOAD}" in run
    assert "| `WORKLOAD <str>` | A workload's name, or the path of its TOML file. | required |" in run
    assert "| `--threads <int range>` | Threads of the learner. | default: 1; x>=1 |" in run
    assert "| `--loop LOOP` |" in run
    assert "| `--fail-on <worse|changed>` |" in section(page, "diff")


def test_every_option_says_what_it_does(page: str) -> None:
    rows = re.findall(r"^\| (`[^`]+`) \| (.*) \| .* \|$", page, re.MULTILINE)
    assert len(rows) > 150
    assert not [name for name, meaning in rows if not meaning.strip()]


def test_another_page_is_left_as_it_is() -> None:
    assert options_page.on_page_markdown("# Start\n", page=None) == "# Start\n"
