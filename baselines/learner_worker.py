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
import importlib.util
import json
import math
import os
import sys


def load(path):
    """Import the Python file at `path`, and return it as a module."""
    spec = importlib.util.spec_from_file_location("timed_learner", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def main():
    """Answer the jobs of standard input until it ends; an error becomes the answer to its job."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must go to standard error
    module = learner = None
    for line in sys.stdin:
        try:
            job = json.loads(line)
            if "calls" in job:
                gc.disable()
                answer = {"wall_s": learner.time_steps(job["calls"])}
                gc.enable()
            else:
                module = module or load(sys.argv[1])
                learner = module.create(job["workload"], job["batch_size"], job["threads"])
                check(learner)
                answer = {"version": module.VERSION, "note": module.NOTE}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
