"""Times one sum tree for the replay benchmark, in the library's virtual environment.

    baselines/<name>/.venv/bin/python baselines/tree_worker.py baselines/<name>/tree.py

`tree.py` defines `create(capacity)`. It returns a tree with three methods. `sample(batch_size, rng)` draws the random
numbers, and returns indices of leaves drawn in proportion to their priorities. `update(indices, priorities)` sets
the priorities of some leaves. `fill(priorities)` sets those of all leaves, before anything is timed. `VERSION` names
the library, and `NOTE` says what else its calls do.

Each line of standard input is a job in JSON; each line of standard output is its answer in JSON:
{"capacity": n} creates a filled tree, checks it, and answers {"version": ..., "note": ...};
{"operation": "sample" | "update", "batch_size": B, "calls": n, "seed": s} answers {"wall_s": seconds of n calls}.
Each call gets arguments of its own, made before the clock starts. Another operation, if the tree has it, is called
with random leaves. A job that cannot be done gets {"error": ...}.
"""

import gc
import importlib.util
import json
import os
import sys
import time

import numpy as np


def load(path):
    """Import the Python file at `path`, and return it as a module."""
    spec = importlib.util.spec_from_file_location("timed_tree", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(tree, priorities):
    """Check that a tree draws leaves by the priorities that were set, before and after an update.

    Args:
        tree: the tree, filled with `priorities`.
        priorities: (capacity,) priorities of its leaves.

    Raises:
        AssertionError: leaves are drawn more or less often than their priorities say, or a leaf is out of range.
    """
    rng = np.random.default_rng(0)
    capacity = len(priorities)
    heavy = rng.choice(capacity, 64, replace=False)  # among many more leaves
    tree.update(heavy, np.full(64, priorities.sum()))
    # Fewer than the heavy leaves, because some trees draw without replacement.
    drawn = np.asarray(tree.sample(32, rng))
    assert np.isin(drawn, heavy).mean() > 0.9, "leaves of nearly all the priority are drawn too seldom"
    tree.update(heavy, priorities[heavy])
    drawn = np.asarray(tree.sample(32, rng))
    assert drawn.min() >= 0, "a leaf out of range"
    assert drawn.max() < capacity, "a leaf out of range"
    assert np.isin(drawn, heavy).mean() < 0.5, "an update has had no effect"


def time_calls(tree, capacity, job):
    """Return the seconds that the calls of a tree which a job requests take together.

    Args:
        tree: the tree, filled with priorities.
        capacity: number of its leaves.
        job: `{"operation": "sample" | "update", "batch_size": B, "calls": n, "seed": s}`; another operation is a
            method of the tree that is called with B random leaves.
    """
    rng = np.random.default_rng(job["seed"])
    size = job["batch_size"]
    if job["operation"] == "sample":
        arguments = [(size, rng)] * job["calls"]
        call = tree.sample
    else:
        call = getattr(tree, job["operation"])
        arguments = [(rng.integers(0, capacity, size),) for _ in range(job["calls"])]
        if job["operation"] == "update":
            arguments = [(indices, rng.random(size)) for (indices,) in arguments]
    # A tree on a device may return from a call before its work is done.
    synchronise = getattr(tree, "synchronise", lambda: None)
    gc.disable()
    synchronise()
    start_s = time.perf_counter()
    for one in arguments:
        call(*one)
    synchronise()
    wall_s = time.perf_counter() - start_s
    gc.enable()
    return wall_s


def main():
    """Answer the jobs of standard input until it ends; an error becomes the answer to its job."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must go to standard error
    module = tree = None
    for line in sys.stdin:
        try:
            job = json.loads(line)
            module = module or load(sys.argv[1])
            if "capacity" in job:
                capacity = job["capacity"]
                tree = None  # releases its memory before the next one is created
                tree = module.create(capacity)
                priorities = np.random.default_rng(1).random(capacity)
                tree.fill(priorities)
                check(tree, priorities)
                answer = {"version": module.VERSION, "note": module.NOTE}
            else:
                answer = {"wall_s": time_calls(tree, capacity, job)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
