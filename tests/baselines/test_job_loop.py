"""The loop of jobs that workers which time one part share: an answer to each line, whatever a job does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.compare import registry

WORKER = """
import sys
from job_loop import answer_jobs, load

module = load(sys.argv[1])

def answer(job):
    print("a library prints")
    return {"twice": module.twice(job["number"])}

answer_jobs(answer)
"""


def answers(tmp_path: Path, *lines: str) -> list[dict[str, Any]]:
    (tmp_path / "worker.py").write_text(WORKER)
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
