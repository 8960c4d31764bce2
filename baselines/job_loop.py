"""Reads jobs from standard input and writes answers to standard output, one line of JSON each, for every worker.

A worker (`worker.py`) trains with one library, in the library's virtual environment. A job requests gradient steps of
a workload, and its result states the steps and the time that they took (`harness/compare/protocol.py`). The workers
that time one part alone (`*_worker.py`) answer jobs of their own kinds (`answer_jobs`).
"""

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import traceback

CPU = "cpu"


class UnsupportedError(Exception):
    """Raised if a job requires something that this library cannot do, such as an algorithm that it lacks."""


def register_environments():
    """Register this project's own environments with Gymnasium, as far as the packages that they need are installed."""
    with contextlib.suppress(ModuleNotFoundError):
        import atari_frames  # noqa: F401 - registers the environment
        import continuous_cartpole  # noqa: F401


def versions(*names):
    """Return the versions of Python, the named packages, PyTorch, Gymnasium, NumPy and MuJoCo, by name.

    Packages that are not installed are left out.
    """
    by_package = {"python": platform.python_version()}
    for name in (*names, "torch", "gymnasium", "numpy", "mujoco"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            by_package[name] = importlib.metadata.version(name)
    return by_package


def _answers(make):
    """Yield the answer to each job of standard input."""
    agent, key = None, None
    for line in sys.stdin:
        job = json.loads(line)
        gradient_steps, episodes = job.pop("gradient_steps"), job.pop("evaluation_episodes", 0)
        try:
            _check_device(job.get("device", CPU), make)
            if not job.get("environment", True):
                _check_alone(job["workload"]["algorithm"]["name"], make)
            if job.get("library") and not getattr(make, "takes_settings", False):
                raise UnsupportedError(
                    f"library: found {', '.join(job['library'])}; allowed: no settings of its own"
                )
            flushes = job.get("flush_subnormals", False)
            if agent is None or job != key:
                if flushes:
                    _flush_subnormals()
                agent, key = make(job), job
            answer = agent.advance(gradient_steps)
            if episodes:
                answer["evaluation_returns"] = agent.evaluate(
                    job["workload"]["environment"], job["seed"], episodes
                )
            if flushes:
                answer["notes"] = answer.get("notes", {}) | {"subnormal numbers": "flushed to zero"}
            if _annealed(job["workload"]) and not getattr(make, "anneals", False):
                answer["notes"] = answer.get("notes", {}) | {"step sizes": "constant: they are not annealed"}
            yield answer
        except UnsupportedError as error:
            yield {"error": str(error)}


def _annealed(workload):
    """Return whether Adam's step sizes fall in a workload."""
    return workload.get("algorithm", {}).get("annealing_steps") is not None


def _flush_subnormals():
    """Let this thread read and write subnormal numbers as zero; raise `UnsupportedError` if it cannot."""
    try:
        import torch
    except ModuleNotFoundError:
        raise UnsupportedError("subnormal numbers: PyTorch, which flushes them, is not installed") from None
    if not torch.set_flush_denormal(True):
        raise UnsupportedError("subnormal numbers: PyTorch cannot flush them on this processor")


def _check_device(device, make):
    """Raise `UnsupportedError` if the library's networks cannot be on a device."""
    kinds = getattr(make, "devices", (CPU,))
    if device.partition(":")[0] not in kinds:
        raise UnsupportedError(f"device: found {device}; allowed: {', '.join(kinds)}")


def _check_alone(algorithm, make):
    """Raise `UnsupportedError` if learner and replay cannot run without an environment."""
    if algorithm == "ppo":
        raise UnsupportedError("PPO has no replay to learn from alone")
    if not getattr(make, "learns_alone", False):
        raise UnsupportedError("learner and replay alone are not mapped to it")


def serve(make):
    """Answer jobs until standard input ends.

    Args:
        make: a class or function that creates the agent for a job; it gets the job without these numbers. The same
            agent answers further jobs as long as they differ in `gradient_steps` and `evaluation_episodes` only. The
            agent's `advance(gradient_steps)` continues training and returns the fields of a result, and its
            `evaluate(environment, seed, episodes)` the returns of greedy episodes, for jobs that ask for them. If
            `make` has a true attribute `learns_alone`, it also accepts jobs without an environment (only replay and
            learner run), with a true `takes_settings` jobs with settings of the library's own, and with a true
            `anneals` its step sizes fall as a workload says; a note says so where they do not. Its attribute `devices`
            has the kinds of device that it accepts jobs for; without it, that is the CPU alone.
    """
    output = _own_output()
    for answer in _answers(make):
        print(json.dumps(answer), file=output, flush=True)


def _own_output():
    """Return standard output for answers alone; from now on what libraries print there goes to standard error."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def answer_jobs(answer):
    """Answer the jobs of standard input until it ends; an error becomes the answer to its job.

    Args:
        answer: function from a job, a dict, to its answer, another dict. What it raises becomes
            `{"error": "<kind>: <message>"}`.
    """
    output = _own_output()
    for line in sys.stdin:
        try:
            answered = answer(json.loads(line))
        except Exception as error:
            traceback.print_exc()
            answered = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answered), file=output, flush=True)


def answer_parts(key, create, measure):
    """Answer the jobs of standard input about one part of a library, which the last job with the field `key` created.

    Args:
        key: a field of every job that creates a part; its answer is `{"version": ..., "note": ...}`.
        create: function from the module of the file that the worker is given, and such a job, to the part, checked.
        measure: function from the part and another job to the answer, a dict.
    """
    module = part = None

    def answer(job):
        nonlocal module, part
        module = module or load(sys.argv[1])
        if key not in job:
            return measure(part, job)
        part = None  # releases its memory before the next one is created
        part = create(module, job)
        return {"version": module.VERSION, "note": module.NOTE}

    answer_jobs(answer)


def load(path):
    """Import the Python file at `path`, which a worker times, and return it as a module."""
    spec = importlib.util.spec_from_file_location("timed", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
