"""Runs this project's trainings as a worker process, which answers the jobs of `harness.compare.protocol`.

python -m placerl.harness.compare.own_worker MAPPING [FLAG], a flag of `FLAGS`, such as --envpool
"""

import gc
import json
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from platform import python_version
from typing import Any

from placerl.harness import workloads
from placerl.harness.compare.protocol import WorkerJob, WorkerResult
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import STRICT, Environments, Loop, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.evaluation import Evaluation
from placerl.harness.runtime.measured_run import Started, start
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Training

_VERSIONS = {
    "python": python_version(),
    **{name: version(name) for name in ("placerl", "torch", "numpy", "gymnasium", "mujoco")},
}


def _train(training: Started, job: WorkerJob, mapping: str) -> dict[str, Any]:
    gc.collect()  # as the baselines' workers do, so that no garbage is collected during another system's time
    if job.environment:
        progress = training.advance(job.gradient_steps)
    elif isinstance(training, Training):
        progress = training.learn(job.gradient_steps)
    else:
        raise UserError("job", "environment", "false for PPO", "true: it learns from its own latest samples")
    evaluated: list[float] = []
    if job.evaluation_episodes:
        evaluation = Evaluation(workloads.from_tables(job.workload, "job"), job.seed)
        evaluated = evaluation.returns(training.greedy(), job.evaluation_episodes)
        evaluation.close()
    return WorkerResult(
        gradient_steps=progress.gradient_steps,
        environment_steps=progress.environment_steps,
        wall_s=progress.wall_s,
        episode_returns=[episode.episode_return for episode in progress.episodes],
        versions=_VERSIONS,
        notes={"mapping": mapping, "fusion": training.fusion},
        terms_s=progress.terms_s,
        environment_steps_so_far=training.environment_steps,
        evaluation_returns=evaluated,
    ).model_dump()


STEPPING = {"envpool": Environments.ENVPOOL, "native_environments": Environments.NATIVE}
"""What steps the environments with a flag of the command; without one, Gymnasium, as in the libraries."""
FLAGS = (*STEPPING, "threads_native", "concurrent")
"""Flags of the command."""


def _started(job: WorkerJob, mapping: str, flags: dict[str, Any]) -> Started:
    """Return the training of a job. C++ threads are one learner, and actors on the other cores if there are any."""
    if job.library:
        raise UserError(
            "job", "library", ", ".join(job.library), "nothing: the workload states every setting"
        )
    item, loop = workloads.from_tables(job.workload, "job"), None
    if flags.get("concurrent"):
        schedule, loop = STRICT, Loop.CONCURRENT
    elif flags.get("threads_native"):
        schedule = Schedule(processes=min(item.training.actors, job.threads - 1), threads_native=True)
    else:
        stepping = next((word for name, word in STEPPING.items() if flags.get(name)), Environments.GYMNASIUM)
        schedule = Schedule(threads=job.threads, environments=stepping)
    return start(resolve(schedule, item, Mapping.parse(mapping), job.batch_size, loop=loop), job.seed)


def answers(mapping: str, **flags: bool) -> Iterator[dict[str, Any]]:
    """Read jobs from standard input, one line of JSON each, do them, and yield an answer to each.

    A training goes on from job to job if only the numbers of gradient steps and of greedy episodes differ; otherwise
    a new one starts.

    Args:
        flags: how this project trains, such as `envpool=True`; the names are `FLAGS`.
    """
    training: Started | None = None
    key = None
    for line in sys.stdin:
        job = WorkerJob.model_validate_json(line)
        asked = job.model_copy(update={"gradient_steps": 1, "evaluation_episodes": 0})
        try:
            if training is None or asked != key:
                if training is not None:
                    training.close()
                training = _started(job, mapping, flags)
                training.warm_up()
                key = asked
            yield _train(training, job, mapping)
        except UserError as error:
            yield {"error": str(error)}


def main() -> None:
    """Answer jobs from standard input on standard output, one line of JSON each, until standard input ends."""
    # Answers are written to the real standard output; what libraries print goes to standard error.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    flags = {name: f"--{name.replace('_', '-')}" in sys.argv[2:] for name in FLAGS}
    for answer in answers(sys.argv[1], **flags):
        print(json.dumps(answer), file=output, flush=True)


if __name__ == "__main__":
    main()
