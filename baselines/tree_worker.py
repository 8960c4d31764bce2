"""Times one sum tree for the replay benchmark, in an environment of its own.

    baselines/<name>/.venv/bin/python baselines/tree_worker.py baselines/<name>/tree.py

`tree.py` defines `create(capacity)`: a tree with `sample(batch_size, rng)`, which returns leaves drawn in proportion
to their priorities, random numbers included, and `update(indices, priorities)`; `fill(priorities)` sets all leaves
at first; `VERSION` names the library and `NOTE` says what its calls do beside.

One JSON line a job on standard input, one JSON line an answer on standard output:
{"capacity": n} makes a filled tree, checks it, and answers {"version": ..., "note": ...};
{"operation": "sample" | "update", "batch_size": B, "calls": n, "seed": s} answers {"wall_s": seconds of n calls},
whose arguments are fresh and made before the clock starts; other operations get random leaves. {"error": ...} where
that cannot be done.
"""

import gc
import importlib.util
import json
import os
import sys
import time

import numpy as np


def load(path):
    """The module at `path`."""
    spec = importlib.util.spec_from_file_location("timed_tree", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(tree, priorities):
    """Raises `AssertionError` unless leaves are drawn by the priorities that were set."""
    rng = np.random.default_rng(0)
    capacity = len(priorities)
    heavy = rng.choice(capacity, 64, replace=False)  # of many more leaves
    tree.update(heavy, np.full(64, priorities.sum()))
    # Fewer than the heavy leaves, as some trees draw without replacement.
    drawn = np.asarray(tree.sample(32, rng))
    assert np.isin(drawn, heavy).mean() > 0.9, "leaves of nearly all the priority are drawn too seldom"
    tree.update(heavy, priorities[heavy])
    drawn = np.asarray(tree.sample(32, rng))
    assert drawn.min() >= 0, "a leaf out of range"
    assert drawn.max() < capacity, "a leaf out of range"
    assert np.isin(drawn, heavy).mean() < 0.5, "an update has had no effect"


def time_calls(tree, capacity, job):
    """Seconds of `job["calls"]` calls."""
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
    # A tree on a device may return from a call before the call is done.
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
    """Answers jobs until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints belongs on standard error
    module = tree = None
    for line in sys.stdin:
        try:
            job = json.loads(line)
            module = module or load(sys.argv[1])
            if "capacity" in job:
                capacity = job["capacity"]
                tree = None  # give its memory back before the next one is made
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
