"""Times PPO's iterations in programs of the kind that PPO compares with (PPO 5.1, Table 2).

OpenAI Baselines and Spinning Up can no longer be installed. Two workers of this project are built as they were:
`baselines/spinningup_style` and `baselines/ppo2_style`. They run in this project's own environment, on a CPU or a CUDA
device, with the sizes of Table 2 and without early stopping. Their rows are those of the experiment PPO-T2, with the
worker as backend; claims judge by them what is said "as in the paper", each library apart.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pandas as pd
import torch

from placerl.harness import workloads
from placerl.harness.compare.protocol import WorkerFailure, WorkerJob
from placerl.harness.compare.registry import plain_worker
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.base import Finding, Outcome, unless_suspect
from placerl.harness.papers.cells import GPU_TIER, TierLimits, claim_cell
from placerl.harness.papers.clocks import AtBothClocks
from placerl.harness.papers.papers_own import AlsoAsInThePaper, PapersOwn
from placerl.harness.papers.ppo.table_2_iterations import (
    BENCHMARKS,
    EXPERIMENT,
    TIME,
    IterationColumns,
    sized,
    table_columns,
)
from placerl.harness.store.cell import Cell
from placerl.primitives.fpga.cycles.ppo import PpoIteration

STYLES = {"Spinning Up": "spinningup_style", "Baselines": "ppo2_style"}
"""The worker that stands in for each library of Table 2."""
DEVICES = ("cpu", "cuda")
ITERATION_LIMIT_S = 600.0
TIERS = {"standard": 15.0, "full": 90.0, GPU_TIER: 12.0}
"""Approximate seconds of a cell, by tier."""


def timed(
    benchmark: str, library: str, device: str, iteration: PpoIteration, budget_s: float, report: Report
) -> Sequence[Row]:
    """Time an iteration of PPO in a program of a library's kind.

    Args:
        budget_s: no further iteration begins after this many seconds; the fewest for an interval always run.

    Returns:
        One row: the iteration's seconds, with those of each part in columns. It was not run if the worker refuses it.
    """
    item, cores = sized(workloads.load(BENCHMARKS[benchmark]), iteration), len(usable_cores())
    job = WorkerJob(
        workload=item.tables(),
        batch_size=iteration.minibatch,
        seed=0,
        threads=cores,
        gradient_steps=1,  # a job takes whole iterations
        device=device,
    )
    fields: dict[str, Any] = {
        "workload": item.name,
        "primitive": "training",
        "backend": STYLES[library],
        "device": device,
        "batch_size": iteration.minibatch,
        "quantity": TIME,
    }
    columns = partial(IterationColumns, benchmark, asdict(iteration), cores, iteration.agents)
    report(0.0, 1.0, f"{benchmark} on {device}, as {library}")
    try:
        with plain_worker(STYLES[library]) as worker:
            asked = partial(worker.ask, job, ITERATION_LIMIT_S)
            results = in_rounds({iteration: asked}, Rounds(budget_s=budget_s))[iteration]
    except WorkerFailure as failure:
        return [EXPERIMENT.not_run(f"not run: {STYLES[library]}: {failure}", columns(), **fields)]
    terms_s = {name: [result.terms_s[name] for result in results] for name in results[0].terms_s}
    return [EXPERIMENT.summary([result.wall_s for result in results], columns(terms_s), **fields)]


def _measured(tier: TierLimits, benchmark: str) -> Iterator[tuple[str, PpoIteration]]:
    """Yield the libraries and iterations that a tier measures of a benchmark.

    The full tier has all columns of Table 2; the others have the smallest and the largest mini-batch, of which Spinning
    Up's smallest, which takes half a minute an iteration, is left out, and the standard tier has no Spinning Up.
    """
    for library in STYLES:
        columns = table_columns(benchmark, library)
        by_minibatch = [iteration for name, iteration in columns.items() if name[0] == "M"]
        if tier.name == "full":
            yield from ((library, iteration) for iteration in dict.fromkeys(columns.values()))
        elif by_minibatch and library == "Baselines":
            yield from ((library, iteration) for iteration in (by_minibatch[0], by_minibatch[-1]))
        elif by_minibatch and tier.name == GPU_TIER:
            yield library, by_minibatch[-1]


def cells(tier: TierLimits, benchmarks: Collection[str]) -> list[Cell]:
    """Return the cells (pieces of the plan) that time an iteration in a program of a library's kind, on one device.

    There are none in the quick tier, nor in one that a command made itself.
    """
    if tier.name not in TIERS:
        return []
    devices = ["cpu"] if tier.name != GPU_TIER else []
    if tier.name == GPU_TIER or torch.cuda.is_available():
        devices.append("cuda")
    budget_s = TIERS[tier.name]
    return [
        claim_cell(
            f"{EXPERIMENT}/{benchmark.lower()}/{STYLES[library]}/{device}/"
            f"{iteration.agents}x{iteration.steps}/{iteration.minibatch}",
            budget_s,
            partial(timed, benchmark, library, device, iteration, budget_s),
        )
        for benchmark in benchmarks
        for library, iteration in _measured(tier, benchmark)
        for device in devices
    ]


def _of_the_paper(frame: pd.DataFrame, styles: Sequence[str]) -> pd.DataFrame:
    timed_here = (frame["suite"] == Suite.CLAIM) & (frame["experiment"] == EXPERIMENT)
    timed_here &= (frame["quantity"] == TIME) & frame["device"].isin(DEVICES)
    return frame[~(timed_here & ~frame["backend"].isin(styles))]


LIBRARIES_OF_THE_PAPER = PapersOwn(
    "on CPU and GPU programs of the kind of Baselines' PPO2 and of Spinning Up, each next to its library's gains",
    partial(_of_the_paper, styles=list(STYLES.values())),
)
"""What PPO compares its accelerator with (5.1)."""
BASELINES_OF_THE_PAPER = PapersOwn(
    "on CPU and GPU a program of the kind of Baselines' PPO2",
    partial(_of_the_paper, styles=[STYLES["Baselines"]]),
)
"""What PPO draws its accelerator next to in Fig. 10 and 11 (5.3.1)."""


class ComparedWithLibraries(AtBothClocks, AlsoAsInThePaper):
    """What the claims share whose figures compare the accelerator with OpenAI's libraries (PPO 5.1).

    This project's own programs may be faster than these libraries, and then leave the accelerator a smaller gain. So
    a claim is refuted only if programs of the libraries' kind refute it too.

    Attributes:
        timed_by: the command that measures these programs; "{key}" stands for the claim's key.
    """

    timed_by = "placerl reproduce --only {key} --tier standard"

    def finding(self, frame: pd.DataFrame) -> Finding:
        best = super().finding(frame)
        if best.outcome is not Outcome.NOT_REPRODUCED:
            return best
        printed = unless_suspect(super().finding(self.as_in_the_paper.of(frame)))
        ours = (*best.ours, *(number for number in printed.ours if number not in best.ours))
        said = f"{best.explanation} As in the paper, {self.as_in_the_paper.words}: {printed.outcome}."
        if printed.outcome is Outcome.NOT_REPRODUCED:
            return replace(best, ours=ours, explanation=said)
        said += " This project's own programs, which the paper did not have, refute nothing alone."
        decides = f"programs of the kind of OpenAI's libraries (`{self.timed_by.format(key=self.key)}`)"
        return Finding(Outcome.NO_VERDICT, ours, said, decides=decides)
