"""The CleanRL-style file with its steps compiled by `torch.compile`, as LeanRL does with CleanRL's, as a worker.

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/leanrl_style/.venv/bin/python -P \\
        baselines/leanrl_style/worker.py

Gradient steps, their optimisers included, and inference are compiled by Inductor for the CPU, with static shapes,
before anything is timed; what it made stays in this virtual environment. Everything else, and what is said of its
settings, is in `cleanrl_style/worker.py`.
"""

import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(sys.prefix) / "inductor"))

import torch
from cleanrl_style import worker
from job_loop import serve


def create(job: dict[str, Any]) -> worker.Trainer:
    """The agent for a job, compiled and warmed up."""
    agent = worker.made(job)
    for name in agent.learner.compiled:
        setattr(agent.learner, name, torch.compile(getattr(agent.learner, name), dynamic=False))
    agent.notes["compiled"] = ", ".join(agent.learner.compiled)
    agent.begin()
    return agent


if __name__ == "__main__":
    serve(create)
