"""The programs that the Makefile starts are there: most of its targets take too long to be tests."""

import re
from pathlib import Path

import pytest

from placerl.harness.cli import bench_command
from placerl.harness.cli.app import commands

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "Makefile").read_text()
COMMANDS = set(re.findall(r"(?:/placerl| -m placerl) ([\w-]+)(?: ([\w-]+))?", TEXT))
TARGETS = set(re.findall(r"^([a-z-]+):", TEXT, re.MULTILINE))
USERS_KNOW = {
    "bench-learner",
    "bench-quantization",
    "bench-replay",
    "gpu-check",
    "gpu-claims",
    "reproduce",
    "test",
    "asv",
}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / ".ci" / "run",
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "harness").rglob("*.py"),
]


def test_the_targets_that_users_know_are_there() -> None:
    assert USERS_KNOW <= TARGETS


def test_commands_are_those_of_the_command_line() -> None:
    assert {"reproduce", "bench"} <= {command for command, _ in COMMANDS}
    for command, name in COMMANDS:
        assert command in commands()
        assert command != "bench" or name in bench_command.names()


def test_no_page_names_a_target_or_a_benchmark_that_is_not_there() -> None:
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in PAGES]
    targets = {(page, name) for page, text in texts for name in re.findall(r"`make\s+([a-z-]+)[\s`]", text)}
    benchmarks = {
        (page, name)
        for page, text in texts
        for name in re.findall(r"`placerl\s+bench\s+([a-z-]+)[\s`]", text)
    }
    assert len(targets) > 5
    assert len(benchmarks) > 5
    assert not {(page, name) for page, name in targets if name not in TARGETS}
    assert not {(page, name) for page, name in benchmarks if name not in [*bench_command.names(), "--list"]}


def test_the_files_that_are_begun_first_are_there(pytestconfig: pytest.Config) -> None:
    (longest,) = (
        found for each in pytestconfig.pluginmanager.get_plugins() if (found := vars(each).get("LONGEST"))
    )
    assert all((ROOT / "tests" / name).is_file() for name in longest)
    assert "--no-loadscope-reorder" in TEXT, "xdist would put them last again"
