"""What is shipped next to the code: the wheel's files, the citation, the hooks and the workflow."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from placerl.harness.papers import discovery
from tests.limits import LIMIT_S

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD = """
import sys
from scikit_build_core.build import build_wheel
build_wheel(sys.argv[1], {"wheel.cmake": "false", "build-dir": sys.argv[1] + "/build"})
"""


FOUND = """
from placerl.harness.compare.registry import baseline_names, baseline_python
from placerl.harness.core.shipped import shipped
print(shipped(), baseline_python("sb3"), *baseline_names())
"""


def read(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, without the native part, which would have to be compiled."""
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-P", "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert not done.returncode, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_says_that_it_is_typed_and_holds_what_it_reads(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    assert "placerl/py.typed" in names
    assert {
        "placerl/harness/workloads/cartpole-dqn.toml",
        "placerl/harness/platforms/fixar21.toml",
    } <= names
    shipped = {name.removeprefix("placerl/harness/_shipped/") for name in names if "/_shipped/" in name}
    folders = ["constraints.txt", "results/machines", "results/papers", "results/reference", "baselines"]
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *folders]
    listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    assert set(listed) <= shipped
    assert not [name for name in shipped if ".venv" in name or "__pycache__" in name]
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"placerl"}


def copy_extensions(site: Path) -> None:
    """Copy the native parts to an unpacked wheel, from wherever the installation put them."""
    for name in ("placerl.primitives._native", "placerl.harness._experiments"):
        extension = importlib.import_module(name).__file__
        assert extension
        shutil.copy(extension, site.joinpath(*name.split(".")[:-1]))


class Installed:
    """The wheel's files, unpacked, and an empty folder in which its commands run."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.site, self.empty, self.cache = folder / "site", folder / "empty", folder / "cache"
        self.empty.mkdir()
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(self.site)
        copy_extensions(self.site)

    def printed(self, *arguments: str) -> str:
        # -S: the environment's link to the working copy would come first.
        path = os.pathsep.join((str(self.site), sysconfig.get_path("purelib")))
        done = subprocess.run(
            [sys.executable, "-S", "-P", *arguments],
            cwd=self.empty,
            env=os.environ | {"PYTHONPATH": path, "PLACERL_CACHE": str(self.cache)},
            capture_output=True,
            text=True,
            timeout=800,
        )
        assert not done.returncode, done.stderr
        return done.stdout


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Installed:
    return Installed(wheel, tmp_path)


def test_what_the_wheel_ships_is_found_from_an_empty_folder(installed: Installed) -> None:
    found = installed.printed("-c", FOUND).split()
    assert found[0] == str(installed.site / "placerl" / "harness" / "_shipped")
    assert found[1] == str(installed.cache / "baselines" / "sb3" / ".venv" / "bin" / "python")
    assert {"sb3", "rllib", "tianshou"} <= set(found[2:])


@pytest.mark.slow
@pytest.mark.long  # a whole report
def test_the_wheel_measures_trains_reports_and_exports_from_an_empty_folder(installed: Installed) -> None:
    installed.printed("-m", "placerl", "reproduce", "--only", "PRL-F7", "--results", "results")
    assert "MAP Table V" in (installed.empty / "results" / "report" / "papers.html").read_text()
    mapping = ("--mapping", "native-native-cpu", "--seconds", "1")
    assert "gradient steps" in installed.printed("-m", "placerl", "run", "cartpole-dqn", *mapping)
    assert "export" in installed.printed("-m", "placerl", "export", "--format", "csv")


@pytest.fixture
def environment(wheel: Path, tmp_path: Path) -> Path:
    """A virtual environment with the installed wheel and a package called `harness`; returns its interpreter.

    It finds the project's dependencies where they are, after its own packages; the working copy is not on its path.
    """
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(python.parents[1])], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    alone = ["--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run([*pip, *alone], check=True, capture_output=True, timeout=LIMIT_S)
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    assert {path.name.partition("-")[0] for path in site.iterdir()} == {"placerl"}
    copy_extensions(site)
    (site / "harness").mkdir()
    (site / "harness" / "__init__.py").write_text("OTHER = 'a package of the index'\n")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


@pytest.mark.slow
def test_readmes_programs_run_from_the_wheel_next_to_a_package_called_harness(
    environment: Path, tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    programs = [block for block in blocks if "adapters" not in block]  # which need the other library
    programs.append((ROOT / "harness" / "examples" / "q_learning.py").read_text().replace("30_000", "300"))
    assert len(programs) >= 2
    empty = tmp_path / "empty"
    empty.mkdir()
    ends = """
import sys, harness
assert harness.OTHER
assert "primitives" not in sys.modules
assert placerl.__file__.startswith(sys.prefix), placerl.__file__
assert placerl.harness.__file__.startswith(sys.prefix)
"""
    for number, program in enumerate(programs):
        (empty / f"program_{number}.py").write_text(f"{program}\n{ends}")
        run_in(empty, environment, f"program_{number}.py")
    command = environment.with_name("placerl")
    assert "native" in run_in(empty, command, "doctor")
    shown = run_in(empty, command, "map", "cartpole-ddpg", "--batch-size", "32", "--platform", "map-tpds23")
    assert "Runner-up: " in shown
    assert {path.name for path in empty.iterdir() if not path.name.startswith("program_")} == set()


def run_in(folder: Path, *command: Path | str) -> str:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=800)
    assert not done.returncode, done.stderr
    return done.stdout


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
    assert {"run": ".ci/run ${{ matrix.part }}"} in job["steps"]
    (parts,) = re.findall(r"set -- (.*)", (ROOT / ".ci/run").read_text())
    halves = "test-slow-primitives test-slow-rest"
    assert job["strategy"]["matrix"]["part"] == parts.replace("test-slow", halves).split()


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
