"""Times steps of a library's own environments, in the library's virtual environment.

    baselines/<name>/.venv/bin/python baselines/environment_worker.py baselines/<name>/environment.py

`environment.py` defines `create(id, count)`. It returns N environments of Gymnasium's id that step together and begin
their next episodes themselves, with `draw(rng)`, which returns actions of all of them, and `step(actions)`, which
returns observations (N, width) and rewards (N,). `create` raises ValueError for an environment that the library does
not have. `VERSION` names the library, and `NOTE` says where its environments depart from Gymnasium's.

Each line of standard input is a job in JSON; each line of standard output is its answer in JSON:
{"id": Gymnasium's, "count": N} creates the environments, checks shapes and numbers, and answers {"version": ...,
"note": ...}; {"calls": n, "seed": s} answers {"wall_s": seconds of n steps}, whose actions are drawn before the clock
starts. A job that cannot be done gets {"error": ...}.
"""

import gc
import time
from itertools import pairwise

import numpy as np
from job_loop import answer_parts

CHECKED_STEPS = 200


def check(environments, count):
    """Check that steps give finite observations and rewards of all environments, and change the observations."""
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(CHECKED_STEPS):
        observations, rewards = environments.step(environments.draw(rng))
        assert len(observations) == count, "observations of another number of environments"
        assert len(rewards) == count, "rewards of another number of environments"
        assert np.isfinite(observations).all(), "an observation that is not finite"
        assert np.isfinite(rewards).all(), "a reward that is not finite"
        seen.append(np.array(observations))
    assert all((one != other).any() for one, other in pairwise(seen)), "nothing has moved"


def time_steps(environments, job):
    """Return the answer to a job: the seconds of `job["calls"]` steps of all environments, whose actions are random.

    Args:
        job: `{"calls": n, "seed": s}`, the number of steps and the seed of the actions.
    """
    rng = np.random.default_rng(job["seed"])
    actions = [environments.draw(rng) for _ in range(job["calls"])]
    gc.disable()
    start_s = time.perf_counter()
    for one in actions:
        environments.step(one)
    wall_s = time.perf_counter() - start_s
    gc.enable()
    return {"wall_s": wall_s}


def create(module, job):
    """Return the environments that a job asks for."""
    environments = module.create(job["id"], job["count"])
    check(environments, job["count"])
    return environments


if __name__ == "__main__":
    answer_parts("id", create, time_steps)
