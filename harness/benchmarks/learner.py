"""Gradient steps per second of every learner, beside PyTorch at its best: `make bench-learner`.

A cell is a network and a batch size. In one process and interleaved rounds it times

    eager      PyTorch as CleanRL writes it: modules, `torch.optim.Adam`, one call an operation
    pure       the algorithm's pure step, as it is written
    tuned      the same with plain autograd, fused Adam and foreach averaging
    compiled   the pure step through `torch.compile`
    native     and every other backend of `primitives.learner` that runs here (not the oracle `reference`)

and prints steps per second, the ratio of each to the best of eager, tuned and compiled with its interval, and the
share of the cores' peak arithmetic (float32 multiply-adds, measured beforehand). Every case's TD errors are checked
against the definition in float64 before it is timed.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from harness import comparison, workload
from harness.cases.learners import expect_td_errors, expected_td_errors, random_batch
from harness.measure import Case, Protocol, Timing, measure
from harness.runtime.compose import algorithm_of
from harness.workload import Workload
from primitives import _native, learner
from primitives.algorithms import networks
from primitives.learner import Learner

PYTORCH = ("eager", "tuned", "compiled")


@dataclass(frozen=True)
class Cell:
    """What is timed.

    Attributes:
        name: for the table.
        workload: name of the workload whose algorithm and sizes are used.
        batch_size: transitions in a gradient step.
    """

    name: str
    workload: str
    batch_size: int


CELLS = (
    *(Cell(f"CartPole-DDPG 8-8, B={size}", "cartpole-ddpg", size) for size in (32, 256, 2048)),
    *(Cell(f"Hopper-DDPG 256-256, B={size}", "hopper-ddpg", size) for size in (32, 256, 2048, 16384)),
    Cell("FIX HalfCheetah-DDPG 400-300, B=256", "halfcheetah-ddpg", 256),
    Cell("PPO Hopper 64-64, M=512", "hopper-ppo", 512),
    Cell("PPO Humanoid 128-64, M=512", "humanoid-ppo", 512),
    Cell("Pong-DQN Nature CNN, B=32", "pong-dqn", 32),
)


class EagerDDPG:
    """DDPG as people write it: modules, optimisers, `backward`. The same update as `primitives.algorithms.ddpg`."""

    def __init__(self, item: Workload) -> None:
        algorithm = algorithm_of(item)
        self.settings = algorithm.hyperparameters
        state = algorithm.initialise(torch.Generator().manual_seed(0))
        parts = algorithm.networks
        self.actor, self.target_actor = (_module(parts["actor"], state.actor) for _ in range(2))
        self.critic, self.target_critic = (_module(parts["critic"], state.critic) for _ in range(2))
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=self.settings.actor_learning_rate)
        self.critic_adam = torch.optim.Adam(self.critic.parameters(), lr=self.settings.critic_learning_rate)

    def step(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        """One gradient step with weights of 1; returns the TD errors (B,)."""
        batch = {name: torch.from_numpy(column) for name, column in columns.items()}
        observation, following = batch["observation"], batch["next_observation"]
        with torch.no_grad():
            next_pair = torch.cat([following, self.target_actor(following)], 1)
            going_on = 1 - batch["terminated"].float()
            bootstrap = going_on * self.target_critic(next_pair).flatten()
            target = batch["reward"] + self.settings.gamma * bootstrap
        td_error = target - self.critic(torch.cat([observation, batch["action"]], 1)).flatten()
        self.critic_adam.zero_grad()
        (td_error**2).mean().backward()
        self.critic_adam.step()
        self.actor_adam.zero_grad()
        (-self.critic(torch.cat([observation, self.actor(observation)], 1))).mean().backward()
        self.actor_adam.step()
        tau = self.settings.tau
        with torch.no_grad():
            for targets, online in ((self.target_actor, self.actor), (self.target_critic, self.critic)):
                for old, new in zip(targets.parameters(), online.parameters(), strict=True):
                    old.data.copy_(tau * new.data + (1 - tau) * old.data)
        return td_error.detach().numpy()


def _module(network: networks.Network, parameters: networks.Parameters) -> nn.Sequential:
    assert isinstance(network, networks.MLP)
    activations = {"relu": nn.ReLU, "tanh": nn.Tanh}
    layers: list[nn.Module] = []
    for index, layer in enumerate(network.layers):
        outputs, inputs = layer.weight_shape
        linear = nn.Linear(inputs, outputs)
        linear.weight.data.copy_(parameters[f"{index}.weight"])
        linear.bias.data.copy_(parameters[f"{index}.bias"])
        layers += [linear, activations[network.activation]()]
    layers.pop()
    if network.output_activation != "none":
        layers.append(activations[network.output_activation]())
    return nn.Sequential(*layers)


def step_macs(item: Workload) -> int:
    """Multiply-accumulates of one sample in a DDPG step, those of the matrix products alone.

    Forward passes of both targets, of critic and actor, and of the critic on the actor's action; backward, twice
    a forward pass for weights and inputs, of which the first layer needs no gradient of its input unless that
    leads to the actor, and of the critic under the actor needs no gradient of its weights.
    """
    algorithm = algorithm_of(item)
    actor, critic = (algorithm.networks[name] for name in ("actor", "critic"))
    first = {name: algorithm.networks[name].layers[0].macs for name in ("actor", "critic")}
    forward = networks.forward_macs
    targets = forward(actor) + forward(critic)
    critic_update = forward(critic) + 2 * forward(critic) - first["critic"]
    actor_update = forward(actor) + 2 * forward(critic) + 2 * forward(actor) - first["actor"]
    return targets + critic_update + actor_update


def sides(item: Workload, batch_size: int, *, compiled: bool) -> Iterator[Case[Any]]:
    """The cases of a cell."""
    algorithm = algorithm_of(item)
    modes = ["eager", "tuned", *(["compiled"] if compiled else [])]
    names = {"eager": "pure", "tuned": "tuned", "compiled": "compiled"}
    for mode in modes:
        make = partial(learner.create, algorithm, batch_size=batch_size, mode=mode)
        yield _case(names[mode], item, batch_size, make)
    for status in learner.backends():
        if status.available and not status.simulated and status.name not in ("torch", "reference"):
            make = partial(learner.create, algorithm, batch_size=batch_size, backend=status.name)
            yield _case(status.name, item, batch_size, make)
    if algorithm.name == "ddpg":
        yield _eager_case(item, batch_size)


def _case(name: str, item: Workload, batch_size: int, make: Callable[[], Learner]) -> Case[Any]:
    def check(made: Learner) -> None:
        batch = random_batch(item, batch_size, np.random.default_rng(4))
        expected = expected_td_errors(item, made, batch)
        expect_td_errors(made.step(batch).td_errors, expected)

    return Case(
        name=name,
        setup=make,
        check=check,
        inputs=lambda made, rng: random_batch(item, batch_size, rng),
        call=lambda made, batch: made.step(batch),
    )


def _eager_case(item: Workload, batch_size: int) -> Case[Any]:
    def check(made: EagerDDPG) -> None:
        batch = random_batch(item, batch_size, np.random.default_rng(4))
        reference = learner.create(algorithm_of(item), batch_size=batch_size)
        expect_td_errors(made.step(batch), expected_td_errors(item, reference, batch))

    return Case(
        name="eager",
        setup=lambda: EagerDDPG(item),
        check=check,
        inputs=lambda made, rng: random_batch(item, batch_size, rng),
        call=lambda made, batch: made.step(batch),
    )


def line(cell: Cell, timings: dict[str, Timing], peak_gflops: float | None) -> dict[str, Any]:
    """One cell's result: steps per second, ratios to the best of PyTorch, share of the peak."""
    item = workload.load(cell.workload)
    seconds = {name: timing.median_s for name, timing in timings.items() if timing.median_s is not None}
    best = min((name for name in PYTORCH if name in seconds), key=seconds.__getitem__)
    result: dict[str, Any] = {"cell": cell.name, "best_pytorch": best, "sides": {}}
    for name, timing in timings.items():
        side: dict[str, Any] = {"status": timing.status, "reason": timing.reason}
        if name in seconds:
            side["gradient_steps_per_s"] = 1 / seconds[name]
            if name != best:
                versus = comparison.paired_ratio(timings[best].samples_s, timing.samples_s)
                side["ratio"] = [versus.value, versus.low, versus.high]
            if peak_gflops and item.algorithm.name == "ddpg":
                flops = 2 * step_macs(item) * cell.batch_size
                side["share_of_peak"] = flops / seconds[name] / (peak_gflops * 1e9)
        result["sides"][name] = side
    return result


def bench(
    cells: Sequence[Cell], *, threads: int, rounds: int, compiled: bool, peak_gflops: float | None
) -> Iterator[dict[str, Any]]:
    """Measure cells one after the other."""
    for cell in cells:
        item = workload.load(cell.workload)
        # Random batches are made outside the clock, but they take time too: few, for long steps.
        protocol = Protocol(rounds=rounds, threads=threads, block_s=5e-3, largest_block=64)
        timings = measure(sides(item, cell.batch_size, compiled=compiled), protocol)
        yield line(cell, timings, peak_gflops)


def table(results: Sequence[dict[str, Any]], threads: int) -> Table:
    """The results, a line a side."""
    made = Table(title=f"Gradient steps per second, {threads} thread(s)")
    for column in ("cell", "side", "steps/s", "faster than the best PyTorch", "share of peak"):
        made.add_column(column)
    for result in results:
        for name, side in result["sides"].items():
            rate = side.get("gradient_steps_per_s")
            if name == result["best_pytorch"]:
                ratio = "best of PyTorch"
            elif "ratio" in side:
                ratio = "{:.2f}x ({:.2f} to {:.2f})".format(*side["ratio"])
            else:
                ratio = ""
            share = f"{side['share_of_peak']:.1%}" if "share_of_peak" in side else ""
            shown = side["reason"] if rate is None else f"{rate:.4g}"
            made.add_row(result["cell"], name, shown, ratio, share)
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=comparison.PAIRS)
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, minutes of it")
    parser.add_argument(
        "--peak-gflops", type=float, help="float32 peak of one core, GFLOP/s; measured where not given"
    )
    parser.add_argument("--cells", default="", help="only cells whose name contains this")
    parser.add_argument("--json", action="store_true", help="print JSON, a line a cell, instead of tables")
    arguments = parser.parse_args()
    cells = [cell for cell in CELLS if arguments.cells in cell.name]
    one_core_gflops = arguments.peak_gflops or _native.learner.peak_gflops()
    for threads in arguments.threads:
        results = []
        for result in bench(
            cells,
            threads=threads,
            rounds=arguments.rounds,
            compiled=not arguments.no_compile,
            peak_gflops=threads * one_core_gflops,
        ):
            results.append(result)
            if arguments.json:
                print(json.dumps({"threads": threads} | result), flush=True)
        if not arguments.json:
            Console(width=140).print(table(results, threads))


if __name__ == "__main__":
    main()
