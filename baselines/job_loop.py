"""What every `worker.py` shares: jobs in, results out, one line of JSON each (`harness/compare/protocol.py`)."""

import contextlib
import importlib.metadata
import json
import os
import platform
import sys


class UnsupportedError(Exception):
    """The job asks for what this system cannot do."""


def register_environments():
    """Register this project's own environments, as far as what they need is installed."""
    with contextlib.suppress(ModuleNotFoundError):
        import atari_frames  # noqa: F401 - registers the environment
        import continuous_cartpole  # noqa: F401


def versions(*names):
    """Versions of Python and of what is installed of the packages named, PyTorch and Gymnasium among them."""
    found = {"python": platform.python_version()}
    for name in (*names, "torch", "gymnasium", "numpy", "mujoco"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _answers(make):
    """The answer to each job of standard input."""
    agent, key = None, None
    for line in sys.stdin:
        job = json.loads(line)
        gradient_steps = job.pop("gradient_steps")
        try:
            if not job.get("environment", True):
                _check_alone(job["workload"]["algorithm"]["name"], make)
            if agent is None or job != key:
                agent, key = make(job), job
            yield agent.advance(gradient_steps)
        except UnsupportedError as error:
            yield {"error": str(error)}


def _check_alone(algorithm, make):
    """Raises `UnsupportedError` where learner and replay cannot work alone."""
    if algorithm == "ppo":
        raise UnsupportedError("PPO has no replay to learn from alone")
    if not getattr(make, "learns_alone", False):
        raise UnsupportedError("learner and replay alone are not mapped to it")


def serve(make):
    """Answer jobs until standard input ends.

    Args:
        make: the agent for a job without its `gradient_steps`; the same agent answers as long as the rest of the
            job stays. Its `advance(gradient_steps)` trains on and returns the fields of a result. With an attribute
            `learns_alone` that is true it takes jobs without an environment, too.
    """
    # Answers own the real standard output; what libraries print goes to standard error.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for answer in _answers(make):
        print(json.dumps(answer), file=output, flush=True)
