"""Times one system's gradient steps for the learner benchmark, in the system's virtual environment.

    baselines/<name>/.venv/bin/python baselines/learner_worker.py baselines/<name>/learner.py

`learner.py` defines `create(workload, batch_size, threads)`. It returns a learner with two methods. `time_steps(count)`
takes `count` gradient steps (for PPO, whole updates) and returns their seconds. `checksum()` returns a number that
changes when the parameters do. `VERSION` names the library, and `NOTE` says what else a step does.

Each line of standard input is a job in JSON; each line of standard output is its answer in JSON:
{"workload": {...}, "batch_size": B, "threads": n} creates a learner, checks that it learns, and answers
{"version": ..., "note": ...}; {"calls": n} answers {"wall_s": seconds}. A job that cannot be done gets {"error":
...}.
"""

import gc
import math
import sys

from job_loop import answer_jobs, load


def check(learner):
    """Check that gradient steps change a learner's parameters and keep them finite.

    Raises:
        AssertionError: the parameters stay the same, or are not finite.
    """
    before = learner.checksum()
    learner.time_steps(2)
    after = learner.checksum()
    assert math.isfinite(after), "its parameters are not finite"
    assert before != after, "its steps change nothing"


class Learners:
    """Answers jobs: keeps the learner of the last job that asked for one.

    Args:
        path: the library's `learner.py`, which is imported by the first job.
    """

    def __init__(self, path):
        self.path, self.module, self.learner = path, None, None

    def answer(self, job):
        """Return the answer to a job; see the module's docstring."""
        if "calls" in job:
            gc.disable()
            wall_s = self.learner.time_steps(job["calls"])
            gc.enable()
            return {"wall_s": wall_s}
        self.module = self.module or load(self.path)
        self.learner = self.module.create(job["workload"], job["batch_size"], job["threads"])
        check(self.learner)
        return {"version": self.module.VERSION, "note": self.module.NOTE}


if __name__ == "__main__":
    answer_jobs(Learners(sys.argv[1]).answer)
