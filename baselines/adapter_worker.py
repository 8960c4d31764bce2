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
import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path


def load(path):
    """Import the Python file at `path`, and return it as a module."""
    sys.path.insert(0, str(Path(__file__).parent))
    spec = importlib.util.spec_from_file_location("adapter", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer_to(job, module, training):
    """Carry out a job with a training that exists, and return the answer as a dict.

    Args:
        job: `{"environment_steps": n}` to train for n environment steps, or `{"facts": true}`.
        module: the library's `adapter.py`; not used.
        training: the training that `adapter.py`'s `create` returned.

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


def main():
    """Answer the jobs of standard input until it ends; an error becomes the answer to its job."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must go to standard error
    module = training = None
    for line in sys.stdin:
        try:
            job = json.loads(line)
            module = module or load(sys.argv[1])
            if "algorithm" in job:
                if job["algorithm"] not in module.ALGORITHMS:
                    raise ValueError(
                        f"algorithm: found {job['algorithm']}; allowed: {', '.join(module.ALGORITHMS)}"
                    )
                training = module.create(job["algorithm"], job["replay"] == "ours", job["capacity"])
                answer = {"version": module.VERSION, "note": module.NOTE}
            else:
                answer = answer_to(job, module, training)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
