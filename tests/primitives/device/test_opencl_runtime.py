"""Finding OpenCL leaves nothing behind, and says what keeps it from finding it."""

import os
import signal
import subprocess
import sys

import pytest

from placerl.primitives.device import opencl_runtime
from tests.marks import needs_opencl

KILLED = """
import os, signal
from placerl.primitives.device import opencl_runtime
print(len(opencl_runtime.devices()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
ASKED = "from placerl.primitives.device import opencl_runtime; print(opencl_runtime.unavailable_reason())"

pytestmark = needs_opencl


def ended(program, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "OCL_ICD_VENDORS"}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment | variables, capture_output=True, text=True)


def test_a_killed_process_leaves_no_temporary_file_and_the_next_one_finds_as_much(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for _ in range(2):
        found = ended(KILLED, TMPDIR=str(temporary), PLACERL_CACHE=str(tmp_path / "cache"))
        assert found.returncode == -signal.SIGKILL
        assert int(found.stdout) == len(opencl_runtime.devices())
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(not opencl_runtime.INTEL_CPU.exists(), reason="needs Intel's wheel")
def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    said = ended(ASKED, PLACERL_CACHE=str(tmp_path / "file")).stdout
    assert "PLACERL_CACHE" in said
    assert str(tmp_path / "file") in said
