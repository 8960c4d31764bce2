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

from job_loop import answer_parts


def check(learner):
    """Check that gradient steps change a learner's parameters and keep them finite."""
    before = learner.checksum()
    learner.time_steps(2)
    after = learner.checksum()
    assert math.isfinite(after), "its parameters are not finite"
    assert before != after, "its steps change nothing"


def create(module, job):
    """Return the learner that a job asks for."""
    learner = module.create(job["workload"], job["batch_size"], job["threads"])
    check(learner)
    return learner


def time_steps(learner, job):
    """Return the answer to `{"calls": n}`: the seconds of n gradient steps."""
    gc.disable()
    wall_s = learner.time_steps(job["calls"])
    gc.enable()
    return {"wall_s": wall_s}


if __name__ == "__main__":
    answer_parts("workload", create, time_steps)
