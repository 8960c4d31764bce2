"""Trains with one library, in its virtual environment, and times it with its own replay or with this project's.

    PYTHONPATH=<folder that contains placerl> baselines/<name>/.venv/bin/python baselines/adapter_worker.py \\
        baselines/<name>/adapter.py

`adapter.py` defines ALGORITHMS, VERSION, NOTE and `create(algorithm, ours, capacity)`. The latter returns a
training with `advance(environment_steps)`, which returns the gradient steps it took, and, with this project's
replay, with `facts()` about the replay's contents.

Each line of standard input is a job in JSON; each line of standard output is its answer in JSON:
{"algorithm": ..., "replay": "own" | "ours", "capacity": n} creates a training and answers {"version": ...,
"note": ...};
{"environment_steps": n} answers {"gradient_steps": ..., "wall_s": seconds of these steps, including acting};
{"facts": true} answers the result of `facts()`. A job that cannot be done gets {"error": ...}.
"""

import gc
import time

from job_loop import answer_parts


def create(module, job):
    """Return the training that a job asks for.

    Raises:
        ValueError: the library's adapter has no such algorithm.
    """
    if job["algorithm"] not in module.ALGORITHMS:
        raise ValueError(f"algorithm: found {job['algorithm']}; allowed: {', '.join(module.ALGORITHMS)}")
    return module.create(job["algorithm"], job["replay"] == "ours", job["capacity"])


def answer_to(training, job):
    """Carry out a job with a training that exists, and return the answer as a dict.

    Args:
        job: `{"environment_steps": n}` to train for n environment steps, or `{"facts": true}`.

    Returns:
        After environment steps, `gradient_steps` and `wall_s` (seconds); otherwise the facts about the replay's
        contents, by name.
    """
    if "environment_steps" in job:
        gc.collect()
        start_s = time.perf_counter()
        gradient_steps = training.advance(job["environment_steps"])
        return {"gradient_steps": gradient_steps, "wall_s": time.perf_counter() - start_s}
    return training.facts()


if __name__ == "__main__":
    answer_parts("algorithm", create, answer_to)
