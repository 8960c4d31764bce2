"""`placerl why` leaves the script its output and its exit status, and reports next to them."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from placerl.harness.cli import why_command
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.why import scripts
from tests.limits import LIMIT_S


def test_output_and_status_are_the_scripts_own(tmp_path: Path) -> None:
    script, out = scripts.write(tmp_path), tmp_path / "report.json"
    own = ["1", "--json", "-o", "x y"]
    command = [
        sys.executable,
        "-P",
        "-m",
        "placerl",
        "why",
        "--json",
        "-o",
        str(out),
        "--python",
        sys.executable,
    ]
    done = subprocess.run(
        [*command, str(script), *own], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "begun 1 --json -o x y\n", "")
    report = json.loads(out.read_text())
    assert (report["status"], report["stopped"]) == (3, False)
    # Of independent samples: 5 sigma around what the script plants fail once in a million runs.
    assert report["shares"]["sampling"] == pytest.approx(0.6, abs=5 * math.sqrt(0.24 / report["samples"]))


def test_an_interpreter_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(sys.executable)
    monkeypatch.setenv("PATH", str(here.parent))
    assert why_command._interpreter(Path(here.name)) == str(here)


def test_a_script_that_is_not_there(placerl: Placerl) -> None:
    refused(placerl("why", "nowhere.py"), "SCRIPT", "no file 'nowhere.py'", "the path of a Python script")


def test_a_report_that_cannot_be_written_is_refused_before_the_script_runs(
    placerl: Placerl, tmp_path: Path
) -> None:
    ran, script = tmp_path / "ran", tmp_path / "script.py"
    script.write_text(f"open({str(ran)!r}, 'w')")
    refused(placerl("why", "-o", "/dev/null/report", str(script)), "/dev/null: --out: found")
    assert not ran.exists()
