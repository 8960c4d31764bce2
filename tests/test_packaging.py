"""What is shipped next to the code: the wheel's files, the citation, the hooks and the workflow."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from harness.papers import discovery

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD = """
import sys
from scikit_build_core.build import build_wheel
build_wheel(sys.argv[1], {"wheel.cmake": "false", "build-dir": sys.argv[1] + "/build"})
"""


def read(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text())


def test_the_wheel_says_that_it_is_typed_and_holds_what_it_reads(tmp_path: Path) -> None:
    """Without the native part, which would have to be compiled."""
    pytest.importorskip("scikit_build_core")
    command = [sys.executable, "-P", "-c", BUILD, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert not done.returncode, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    assert {"primitives/py.typed", "harness/py.typed"} <= names
    assert {"harness/workloads/cartpole-dqn.toml", "harness/platforms/fixar21.toml"} <= names
    assert not [name for name in names if name.startswith(("tests/", "baselines/"))]


def test_the_citation_names_this_version_and_every_paper() -> None:
    citation = read("CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert {paper["notes"] for paper in citation["references"]} == {paper.key for paper in discovery.papers()}
    for paper in citation["references"]:
        assert paper["title"], paper["notes"]
        assert paper["authors"], paper["notes"]


def test_the_changelog_has_this_version() -> None:
    assert f"## {PROJECT['version']}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_workflow_runs_what_must_pass() -> None:
    (job,) = read(".github/workflows/ci.yml")["jobs"].values()
    assert {"run": ".ci/run"} in job["steps"]


def test_the_hooks_run_programs_of_the_environment_on_files_that_are_there() -> None:
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local", "nothing is downloaded past constraints.txt"
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for hook in repository["hooks"]:
        program, *arguments = hook["entry"].split()
        assert program.startswith(".venv/bin/"), hook["id"]
        assert all((ROOT / name).is_file() for name in arguments if name.endswith(".py")), hook["id"]
        if hook["id"] != "commit-subject":
            assert program.replace(".venv/bin/", "$(BIN)/") in lint, f"make lint leaves out {hook['id']}"
