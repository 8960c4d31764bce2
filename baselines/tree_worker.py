"""Times one sum tree for the replay benchmark, in the library's virtual environment.

    baselines/<name>/.venv/bin/python baselines/tree_worker.py baselines/<name>/tree.py

`tree.py` defines `create(capacity)`. It returns a tree with three methods. `sample(batch_size, rng)` draws the random
numbers, and returns indices of leaves drawn in proportion to their priorities. `update(indices, priorities)` sets
the priorities of some leaves. `fill(priorities)` sets those of all leaves, before anything is timed. `VERSION` names
the library, and `NOTE` says what else its calls do.

Each line of standard input is a job in JSON; each line of standard output is its answer in JSON:
{"capacity": n} creates a filled tree, checks it, and answers {"version": ..., "note": ...};
{"operation": "sample" | "update" | "update_and_sample", "batch_size": B, "calls": n, "seed": s} answers {"wall_s":
seconds of n calls}. Each call gets arguments of its own, made before the clock starts. Another operation, if the tree
has it, is called with random leaves. A job that cannot be done gets {"error": ...}.
"""

import gc
import time

import numpy as np
from job_loop import answer_parts


def check(tree, priorities):
    """Check that a tree draws leaves by the priorities that were set, before and after an update.

    Args:
        tree: the tree, filled with `priorities`.
        priorities: (capacity,) priorities of its leaves.
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


def time_calls(part, job):
    """Return the answer to a job: the seconds that the calls of a tree which it requests take together.

    Args:
        job: `{"operation": "sample" | "update" | "update_and_sample", "batch_size": B, "calls": n, "seed": s}`; another
            operation is a method of the tree that is called with B random leaves.
    """
    tree, capacity = part
    rng = np.random.default_rng(job["seed"])
    size = job["batch_size"]
    if job["operation"] == "sample":
        arguments = [(size, rng)] * job["calls"]
        call = tree.sample
    else:
        arguments = [(rng.integers(0, capacity, size),) for _ in range(job["calls"])]
        if job["operation"] in ("update", "update_and_sample"):
            arguments = [(indices, rng.random(size)) for (indices,) in arguments]
        if job["operation"] == "update_and_sample":

            def call(indices, priorities):
                tree.update(indices, priorities)
                tree.sample(size, rng)

        else:
            call = getattr(tree, job["operation"])
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
    return {"wall_s": wall_s}


def create(module, job):
    """Return the filled tree that a job asks for, and its capacity."""
    tree, priorities = module.create(job["capacity"]), np.random.default_rng(1).random(job["capacity"])
    tree.fill(priorities)
    check(tree, priorities)
    return tree, job["capacity"]


if __name__ == "__main__":
    answer_parts("capacity", create, time_calls)
