"""Trains PPO in the style of Spinning Up, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 512, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/spinningup_style/.venv/bin/python -P \\
        baselines/spinningup_style/worker.py

Spinning Up can no longer be installed; this file was written for this project after its structure, which PPO (5.1)
compares with. Each of N agents is a process with an environment of its own and a copy of both networks. An iteration
takes T steps in every process, then K epochs of gradient steps of the policy, which end early when the KL divergence
is too large, and then K epochs of the value network. A mini-batch of M samples has M / N of each process, and its
gradients are averaged over the processes before every step, as Spinning Up does with MPI.

These settings favour it: averages go through shared memory, the KL divergence travels with the gradients, networks are
not broadcast after a step (equal gradients keep them equal), Adam is fused, and there is no logging. Networks are on
the job's device, where each process has its copies.
"""

import contextlib
import multiprocessing
import weakref
from collections.abc import Iterator, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from threading import BrokenBarrierError
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from advantages import advantages
from agent import Agent, Environments, anneal, hidden_layers
from cleanrl_style.worker import ACTIVATIONS, PPO, Batch, adam
from job_loop import UnsupportedError, serve
from spinningup_style.average import Average
from torch import Tensor, nn
from torch.nn import functional
from torch_device import device_of

SYSTEM = "the Spinning-Up-style file"
SEED_STEP = 10_000  # between the seeds of two processes
ALIVE_S = 1.0  # between looks at whether every process is still there, while an answer is awaited


class Iteration(NamedTuple):
    """What one process did in an iteration: gradient steps, returns of ended episodes, and seconds of its parts."""

    gradient_steps: int
    episode_returns: Sequence[float]
    environment_s: float
    infer_s: float
    prepare_s: float

    @property
    def sampling_s(self) -> float:
        """Return the seconds in which it took its T steps."""
        return self.environment_s + self.infer_s


class SeparatePPO(PPO):
    """PPO whose networks have an optimiser each."""

    def create_optimizers(self) -> None:
        """Create the optimisers of the policy and of the value network."""
        self.policy_optimizer = adam((self.settings["policy_learning_rate"], self.trained_policy))
        self.value_optimizer = adam((self.settings["value_learning_rate"], self.value))


class Process:
    """One of N processes: an environment, copies of both networks, and a share of every mini-batch.

    Args:
        rank: its number, from 0.
        average: averages a vector over all processes.
    """

    def __init__(self, job: dict[str, Any], rank: int, average: Average) -> None:
        workload, self.rank, self.average = job["workload"], rank, average
        environment, training = workload["environment"], workload["training"]
        self.settings, self.share = workload["algorithm"], job["batch_size"] // training["actors"]
        self.device = device_of(job)
        torch.set_num_threads(max(1, job["threads"] // training["actors"]))
        torch.manual_seed(job["seed"])  # the same networks in every process
        (width,) = environment["observation_shape"]
        with torch.device(self.device):
            self.learner = SeparatePPO(workload, width, environment["action_size"])
        torch.manual_seed(job["seed"] + SEED_STEP * rank)
        self.rng = np.random.default_rng(job["seed"] + SEED_STEP * rank)
        self.returns: list[float] = []
        alone = workload | {"training": training | {"actors": 1}}
        self.environment = Environments(alone, job["seed"] + SEED_STEP * rank, self.returns)
        self.gradient_steps = 0

    def _tensor(self, array: Any) -> Tensor:
        return torch.as_tensor(array, dtype=torch.float32, device=self.device)

    @torch.no_grad()
    def greedy(self, observation: np.ndarray) -> np.ndarray:
        """Return the most likely action for one observation."""
        return self.learner.best(self._tensor(observation[None]))[0].cpu().numpy()

    @torch.no_grad()
    def collect(self) -> tuple[Batch, float, float, float]:
        """Take T steps, and return them with their advantages, and the seconds of environment, networks and rest."""
        learner, environment_s, steps = self.learner, 0.0, []
        begin_s = perf_counter()
        for _ in range(self.settings["trajectory_length"]):
            observation = self._tensor(self.environment.observations)
            policy, value = learner.evaluate(observation)
            action = learner.draw(policy)
            log_probability, _ = learner.judge(policy, action)
            taken = action.cpu().numpy()
            step_s = perf_counter()
            following, reward, terminated, truncated = self.environment.step(
                np.clip(taken, -1, 1) if learner.continuous else taken
            )
            environment_s += perf_counter() - step_s
            last = learner.value(self._tensor(following)).item() if truncated[0] else 0.0
            known = observation, action, log_probability, value.cpu().numpy()
            steps.append((*known, reward, terminated, truncated, [last]))
        _, value = learner.evaluate(self._tensor(self.environment.observations))
        end_s = perf_counter()
        infer_s = end_s - begin_s - environment_s
        observations, actions, log_probabilities, *columns = zip(*steps, strict=True)
        values, rewards, terminated, truncated, lasts = map(np.array, columns)
        following = np.where(truncated, lasts, [*values[1:], value.cpu().numpy()])
        advantage = advantages(
            rewards, values, following, terminated, terminated | truncated,
            self.settings["gamma"], self.settings["gae_lambda"],
        )  # fmt: skip
        batch = {
            "observation": torch.cat(observations),
            "action": torch.cat(actions),
            "log_probability": torch.cat(log_probabilities),
            "advantage": self._tensor(advantage[:, 0]),
            "value_target": self._tensor((advantage + values)[:, 0]),
        }
        return batch, environment_s, infer_s, perf_counter() - end_s

    def normalized(self, batch: Batch) -> Batch:
        """Return samples whose advantages have mean 0 and variance 1 over all processes, if the workload says so."""
        if not self.settings["normalize_advantages"]:
            return batch
        advantage = batch["advantage"].cpu().numpy()
        for power in (1, 2):
            moment = np.array([np.mean(advantage**power)], np.float32)
            self.average(self.rank, moment)
            advantage = advantage - moment if power == 1 else advantage / (np.sqrt(moment) + 1e-8)
        return batch | {"advantage": self._tensor(advantage)}

    def _shares(self, batch: Batch) -> Iterator[Batch]:
        """Yield this process's share of each mini-batch of K epochs."""
        length = len(batch["advantage"])
        for _ in range(self.settings["epochs"]):
            order = torch.as_tensor(self.rng.permutation(length), device=self.device)
            for places in order[: length - length % self.share].split(self.share):
                yield {name: column[places] for name, column in batch.items()}

    def step(self, optimizer: torch.optim.Optimizer, loss: Tensor, divergence: Tensor | None = None) -> bool:
        """Take a gradient step with the gradients' average over all processes.

        Args:
            divergence: () estimated KL divergence of this process's samples; None for the value network.

        Returns:
            False, and no step was taken, if the divergence's average is too large.
        """
        optimizer.zero_grad()
        loss.backward()
        parameters = optimizer.param_groups[0]["params"]
        parts = [*(parameter.grad for parameter in parameters), loss if divergence is None else divergence]
        vector = torch.cat([part.detach().view(-1) for part in parts]).cpu().numpy()
        self.average(self.rank, vector)
        limit = self.settings["target_kl"]
        if divergence is not None and limit is not None and vector[-1] > 1.5 * limit:
            return False
        averages = self._tensor(vector[:-1]).split([parameter.numel() for parameter in parameters])
        for parameter, average in zip(parameters, averages, strict=True):
            parameter.grad.copy_(average.view_as(parameter))
        if self.settings["maximum_gradient_norm"] is not None:
            nn.utils.clip_grad_norm_(parameters, self.settings["maximum_gradient_norm"])
        optimizer.step()
        return True

    def iterate(self) -> Iteration:
        """Take T steps, and train both networks on the samples of all processes."""
        learner, steps = self.learner, self.gradient_steps
        self.returns.clear()
        batch, *seconds = self.collect()
        batch = self.normalized(batch)
        for number, share in enumerate(self._shares(batch)):
            anneal([learner.policy_optimizer], self.settings, steps + number)
            loss, divergence = learner.policy_loss(learner.policy(share["observation"]), share)
            if not self.step(learner.policy_optimizer, loss, divergence):
                break
        for share in self._shares(batch):
            anneal([learner.value_optimizer], self.settings, self.gradient_steps)
            value = learner.value(share["observation"]).squeeze(1)
            self.step(learner.value_optimizer, functional.mse_loss(value, share["value_target"]))
            self.gradient_steps += 1
        return Iteration(self.gradient_steps - steps, list(self.returns), *seconds)


class Training(Agent):
    """Trains PPO in N processes; this one only tells them when.

    Raises:
        UnsupportedError: another algorithm or network, mini-batches that the processes cannot share, or a device that
            PyTorch does not see.
    """

    on_policy = True
    devices = ("cpu", "cuda")
    anneals = True

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        workload = job["workload"]
        self.processes, name = workload["training"]["actors"], workload["algorithm"]["name"]
        if name != "ppo":
            raise UnsupportedError(f"algorithm {name} is not in {SYSTEM}")
        hidden, _ = hidden_layers(workload, ACTIVATIONS, SYSTEM)
        if job["batch_size"] % self.processes:
            raise UnsupportedError(
                f"batch size: found {job['batch_size']}; allowed: multiples of the number of actors, {self.processes}, "
                "whose processes share it"
            )
        if workload["algorithm"]["normalize_advantages"]:
            self.notes["advantages"] = "normalised over the samples of an iteration"
        environment = workload["environment"]
        sizes = *environment["observation_shape"], *hidden, environment["action_size"]
        longest = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes)) + sizes[-1] + 1
        # Forked before this process computes anything: PyTorch's threads, and a CUDA device, do not survive a fork.
        context = multiprocessing.get_context("fork")
        average = Average(context, self.processes, longest)
        pipes = [context.Pipe() for _ in range(self.processes)]
        self.pipes = [pipe for pipe, _ in pipes]
        self.started = [
            context.Process(target=_answer, args=(job, rank, average, pipe), daemon=True)
            for rank, (_, pipe) in enumerate(pipes)
        ]
        for process in self.started:
            process.start()
        self.samples = self.processes * workload["algorithm"]["trajectory_length"]
        weakref.finalize(self, _end, self.pipes)
        self.warm_up()

    def _ask(self, pipes: Sequence[Connection], method: str, *arguments: Any) -> list[Any]:
        """Call a method of `Process` in some processes, and return its results."""
        for pipe in pipes:
            pipe.send((method, arguments))
        answers = []
        for pipe in pipes:
            while not pipe.poll(ALIVE_S):
                if any(process.exitcode for process in self.started):  # one that answers an error ends with 0
                    raise RuntimeError("a process ended without an answer")
            answers.append(pipe.recv())
        errors = [answer for answer in answers if isinstance(answer, Exception)]
        if errors:  # those whose average broke off waited for another one
            raise min(errors, key=lambda error: isinstance(error, BrokenBarrierError))
        return answers

    def greedy(self, observation: np.ndarray) -> np.ndarray:
        """Return the most likely action for one observation."""
        (action,) = self._ask(self.pipes[:1], "greedy", observation)
        return action

    def iterate(self) -> None:
        """Train one iteration; the processes' shares of its sampling are those of environment and networks."""
        begin_s = perf_counter()
        did: list[Iteration] = self._ask(self.pipes, "iterate")
        wall_s = perf_counter() - begin_s
        self.gradient_steps += did[0].gradient_steps
        self.environment_steps += self.samples
        self.episode_returns += [value for one in did for value in one.episode_returns]
        sampling_s, prepare_s = (
            max(getattr(one, name) for one in did) for name in ("sampling_s", "prepare_s")
        )
        environment_s = (
            sampling_s * sum(one.environment_s for one in did) / sum(one.sampling_s for one in did)
        )
        self.spend(
            environment=environment_s,
            infer=sampling_s - environment_s,
            prepare=prepare_s,
            learner=wall_s - sampling_s - prepare_s,
        )


def _answer(job: dict[str, Any], rank: int, average: Average, pipe: Connection) -> None:
    """Be one process: answer what is asked through a pipe until it is None; an error becomes the answer."""
    try:
        process = Process(job, rank, average)
        for method, arguments in iter(pipe.recv, None):
            pipe.send(getattr(process, method)(*arguments))
    except Exception as error:
        average.abort()
        pipe.send(error)


def _end(pipes: Sequence[Connection]) -> None:
    with contextlib.suppress(OSError):  # a process may have ended
        for pipe in pipes:
            pipe.send(None)


if __name__ == "__main__":
    serve(Training)
