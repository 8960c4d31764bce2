"""The C++ is built for ARM, and its tests run under emulation, where the tools of `make check-arm` are installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = ("aarch64-linux-gnu-g++", "qemu-aarch64")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
MAKE = ("make", "--assume-old=.venv/build-tools", "check-arm")
"""The environment that runs the tests is not installed again."""


def make(path: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": path, "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
    return subprocess.run(MAKE, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1700)


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path) -> None:
    for program in ("make", "sh", "bash", "find", "python3"):
        (tmp_path / program).symlink_to(shutil.which(program) or program)
    done = make(str(tmp_path))
    assert done.returncode
    assert "aarch64-linux-gnu-g++ is missing: apt install g++-aarch64-linux-gnu qemu-user" in done.stderr


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(
    bool(MISSING), reason=f"not here: {', '.join(MISSING)} (apt: g++-aarch64-linux-gnu qemu-user)"
)
def test_the_native_tests_pass_on_arm() -> None:
    done = make(os.environ["PATH"])
    assert not done.returncode, done.stdout[-4000:] + done.stderr[-4000:]
    assert re.search(r"100% tests passed out of (\d+)", done.stdout)
    skipped = re.findall(r"(\w+) \(Skipped\)", done.stdout)
    assert skipped in ([], ["bfloat16_test"]), "only instructions of x86-64 are left out"
    assert b"AArch64" in _header(ROOT / "build" / "aarch64" / "native" / "tests" / "team_test")


def _header(program: Path) -> bytes:
    command = ["aarch64-linux-gnu-readelf", "--file-header", str(program)]
    return subprocess.run(command, capture_output=True, check=True).stdout
