"""`placerl bench`: benchmarks are found by their files, listed, and refused in one line."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from placerl.harness.cli import bench_command
from tests.harness.cli.command_line import Placerl, refused


def test_there_are_the_benchmarks_that_users_know() -> None:
    assert {"learner", "quantization", "replay", "replay-threads", "asv"} <= set(bench_command.names())


def test_every_benchmark_is_listed_with_what_it_does(placerl: Placerl) -> None:
    outcome = placerl("bench", "--list")
    assert outcome.status == 0
    found = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    assert list(found) == bench_command.names()
    assert all(text.endswith(".") for text in found.values())


@pytest.mark.parametrize("name", bench_command.names())
def test_a_benchmark_has_help_and_refuses_an_option_that_it_lacks(placerl: Placerl, name: str) -> None:
    outcome = placerl("bench", name, "--help")
    assert outcome.status == 0
    assert bench_command.summary(name).split("`")[0][:30] in outcome.out
    refused(placerl("bench", name, "--bogus"), "--bogus")


def test_no_name_or_a_wrong_one_is_refused(placerl: Placerl) -> None:
    refused(placerl("bench"), "NAME: found nothing", "replay", "--list")
    refused(placerl("bench", "replya"), "did you mean replay?")


@pytest.mark.parametrize("option", ["--list", "--json"])
def test_an_option_before_the_name_is_refused_instead_of_ignored(placerl: Placerl, option: str) -> None:
    refused(placerl("bench", option, "why"), f"{option}: found it before why; allowed: it ")


def test_a_new_file_is_a_benchmark(placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_bench.py").write_text(
        'def main(text: str = "x") -> None:\n    """Say it."""\n    print(text)\n'
    )
    monkeypatch.setattr(bench_command, "FOLDER", tmp_path)
    monkeypatch.setattr("placerl.harness.cli.bench.__path__", [str(tmp_path)])
    assert placerl("bench", "--list").out.split() == ["my-own", "Say", "it."]
    assert placerl("bench", "my-own", "--text", "said").out == "said\n"


def _without_benchmarks(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Let no benchmark be imported for want of a module."""
    there = importlib.import_module

    def absent(name: str, *arguments: str) -> ModuleType:
        if name.startswith("placerl.harness.cli.bench."):
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return there(name, *arguments)

    monkeypatch.setattr(importlib, "import_module", absent)


def test_a_benchmark_whose_package_is_not_installed_names_the_extra(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_benchmarks(monkeypatch, "ray")
    assert placerl("bench", "--help").status == 0
    refused(placerl("bench", "cluster", "--nodes", "1"), "ray", "placerl[cluster]")


def test_a_module_of_the_projects_own_that_is_missing_is_no_mistake_of_the_user(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_benchmarks(monkeypatch, "placerl.harness.cluster")
    with pytest.raises(ModuleNotFoundError):
        placerl("bench", "cluster")
