"""Trains with the CleanRL-style file, its gradient steps compiled by `torch.compile` as LeanRL compiles CleanRL's.

This is a worker, which answers jobs in JSON (`harness/compare/protocol.py`):

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/leanrl_style/.venv/bin/python -P \\
        baselines/leanrl_style/worker.py

Inductor compiles the gradient steps for the CPU, with static shapes, before anything is timed, and caches the
result in this virtual environment. Losses, gradients and Adam form one graph: with PyTorch's own optimiser and
`backward()`, which split the graph, a compiled step took longer than an uncompiled one. Compiled inference took
longer too, so inference is not compiled. Everything else, including the settings, is described in
`cleanrl_style/worker.py`.
"""

import os
import sys
from pathlib import Path
from typing import Any

# Set even where a parent has set it: the cache must be of this PyTorch alone.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(sys.prefix) / "inductor")

import torch
from cleanrl_style import worker
from job_loop import serve

torch._dynamo.config.trace_autograd_ops = True
BETAS = (0.9, 0.999)


class Adam:
    """The state of the optimiser Adam, stored as tensors so that a compiled step can read and write it.

    Args:
        parts: what it trains, each with its step size.
    """

    def __init__(self, *parts: tuple[float, torch.nn.Module], epsilon: float = 1e-8) -> None:
        self.epsilon = epsilon
        pairs = [(rate, parameter) for rate, module in parts for parameter in module.parameters()]
        self.rates = [rate for rate, _ in pairs]
        self.parameters = [parameter for _, parameter in pairs]
        self.first = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.second = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.taken = torch.zeros(())


def take_step(adam: Adam, loss: torch.Tensor, norm: float | None = None) -> None:
    """Take one step of Adam.

    Args:
        norm: the gradients are scaled down so that their joint norm is at most this; None for no limit.
    """
    gradients = torch.autograd.grad(loss, adam.parameters)
    with torch.no_grad():
        if norm is not None:
            total = torch.stack([(gradient * gradient).sum() for gradient in gradients]).sum().sqrt()
            scale = (norm / (total + 1e-6)).clamp(max=1.0)
            gradients = [gradient * scale for gradient in gradients]
        adam.taken += 1
        first_correction = 1 - BETAS[0] ** adam.taken
        second_correction = (1 - BETAS[1] ** adam.taken).sqrt()
        for rate, parameter, gradient, first, second in zip(
            adam.rates, adam.parameters, gradients, adam.first, adam.second, strict=True
        ):
            first.lerp_(gradient, 1 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            step = rate / first_correction
            parameter -= step * first / (second.sqrt() / second_correction + adam.epsilon)


def create(job: dict[str, Any]) -> worker.Trainer:
    """Return the agent for a job, with its gradient steps compiled and its warm-up done."""
    agent = worker.trainer_of(job)
    for name in agent.learner.steps:
        setattr(agent.learner, name, torch.compile(getattr(agent.learner, name), dynamic=False))
    agent.notes["compiled"] = ", ".join(agent.learner.steps)
    agent.begin()
    return agent


worker.adam, worker.take_step = Adam, take_step

if __name__ == "__main__":
    serve(create)
