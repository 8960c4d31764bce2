"""A variant's process is held back, and says why it failed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from placerl.harness.machines import variants
from placerl.harness.machines.variants import VARIANTS
from tests.limits import LIMIT_S


def test_a_process_under_a_quota_gets_its_share() -> None:
    work = "import time\nwhile time.process_time() < 0.2: pass"
    start_s = time.monotonic()
    with (
        subprocess.Popen([sys.executable, "-c", work], text=True) as process,
        variants._held_back(process, 0.25),
    ):
        process.wait(timeout=LIMIT_S)
    assert process.returncode == 0
    assert time.monotonic() - start_s > 0.4  # 0.2 s of work in a quarter of the time, whatever else runs


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"one core: .*no-such-workload"):
        variants.measured(VARIANTS["one core"], "no-such-workload", 32, 1.0, tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()
