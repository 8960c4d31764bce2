"""The loop of jobs that workers which time one part share: an answer to each line, whatever a job does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.compare import registry

WORKER = """
import sys
from job_loop import answer_jobs, load

module = load(sys.argv[1])

def answer(job):
    print("a library prints")
    return {"twice": module.twice(job["number"])}

answer_jobs(answer)
"""


def answers(tmp_path: Path, *lines: str, worker: str = WORKER) -> list[dict[str, Any]]:
    (tmp_path / "worker.py").write_text(worker)
    (tmp_path / "library.py").write_text("def twice(number):\n    return 2 * number\n")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "worker.py"), str(tmp_path / "library.py")],
        input="".join(f"{line}\n" for line in lines),
        env={"PYTHONPATH": str(registry.BASELINES)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_job_has_an_answer_and_what_is_printed_is_none(tmp_path: Path) -> None:
    assert answers(tmp_path, '{"number": 2}', '{"number": 21}') == [{"twice": 4}, {"twice": 42}]


def test_an_error_is_the_answer_to_its_job_and_the_next_is_done(tmp_path: Path) -> None:
    missing, malformed, last = answers(tmp_path, "{}", "{", '{"number": 1}')
    assert missing == {"error": "KeyError: 'number'"}
    assert malformed["error"].startswith("JSONDecodeError: ")
    assert last == {"twice": 2}


TRAINING_WORKER = """
from job_loop import serve

class Training:
    %s
    def __init__(self, job):
        self.device = job.get("device", "cpu")

    def advance(self, gradient_steps):
        return {"device": self.device}

serve(Training)
"""


@pytest.mark.parametrize(
    ("devices", "allowed"), [("", ["cpu"]), ('devices = ("cpu", "cuda")', ["cpu", "cuda", "cuda:1"])]
)
def test_a_library_is_never_kept_on_another_device_than_asked_for(
    tmp_path: Path, devices: str, allowed: list[str]
) -> None:
    asked = ["cpu", "cuda", "cuda:1"]
    lines = [json.dumps({"gradient_steps": 1, "workload": {}, "device": device}) for device in asked]
    found = answers(tmp_path, *lines, worker=TRAINING_WORKER % devices)
    for device, answer in zip(asked, found, strict=True):
        refused = {"error": f"device: found {device}; allowed: cpu"}
        assert answer == ({"device": device} if device in allowed else refused)


@pytest.mark.parametrize("anneals", [False, True])
def test_a_note_says_that_step_sizes_are_constant_where_the_workload_s_fall(
    tmp_path: Path, anneals: bool
) -> None:
    tables = ({}, {"algorithm": {"annealing_steps": None}}, {"algorithm": {"annealing_steps": 9}})
    lines = [json.dumps({"gradient_steps": 1, "workload": workload}) for workload in tables]
    found = answers(tmp_path, *lines, worker=TRAINING_WORKER % f"anneals = {anneals}")
    notes = [answer.get("notes", {}).get("step sizes", "") for answer in found]
    assert notes == ["", "", "" if anneals else "constant: they are not annealed"]
