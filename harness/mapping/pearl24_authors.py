"""The times that PRL's authors published for their composer, as a performance table on platform `pearl24-authors`.

The times (`results/papers/prl_authors_times.csv`) are those of CatherineMeng/HeteroRL, SysConfig/PT.csv, whose
composer takes CartPole at batch size 512 by default, with 256 insertions. Columns that end in " sharing" hold times
when replay and learner share the device.
"""

import csv

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.shipped import shipped
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.table import Entry, PerformanceTable
from placerl.harness.mapping.target import Target
from placerl.harness.workloads import Workload

PLATFORM = "pearl24-authors"
TIMES = shipped("results", "papers", "prl_authors_times.csv")
WORKLOAD, BATCH_SIZE, INSERTED = "cartpole-dqn", 512, 256
_DEVICES = {
    "CPU": (Target("torch"), Target("native")),
    "GPU1": (Target("torch", "cuda"), Target("cuda")),
    "GPU2": (Target("torch", "cuda:1"), Target("cuda", "1")),
    "FPGA": (Target("fpga"), Target("fpga")),
}
"""Backends of learner and replay management that stand for the authors' devices."""


def entries() -> list[Entry]:
    """Return the authors' times in seconds per call, as table entries of provenance `published`."""
    times = []
    with TIMES.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            learner, rmm = _DEVICES[row["row"]]
            time_s = float(row["value"]) * 1e-3
            target = learner if row["column"].startswith("learner.") else rmm
            times.append(
                Entry(row["column"], target, BATCH_SIZE, time_s, time_s, time_s, Provenance.PUBLISHED)
            )
    return times


def table() -> PerformanceTable:
    """Return the authors' times as a performance table: seconds per call by primitive and device."""
    return PerformanceTable(entries())


def problem() -> Problem:
    """Return the workload's properties that the authors' composer assumes by default.

    A transition of CartPole has 12 words: two states of 4, 2 for the action, the reward and the end of the episode.

    The time of an insertion is that of the authors' call, of `INSERTED` transitions. Its transfer in Equation 6 is that
    of one, because `update_interval` is 1: 12,240 bytes less, which take at most 1.6 us over the platform's links.
    """
    return Problem(batch_size=BATCH_SIZE, item_words=12, actors=INSERTED)


def check(workload: Workload, batch_size: int) -> None:
    """Raise UserError unless a workload and batch size are those that the authors timed."""
    if (workload.name, batch_size) != (WORKLOAD, BATCH_SIZE):
        found = f"{workload.name} at batch size {batch_size}"
        raise UserError(
            PLATFORM, "workload", found, f"{WORKLOAD} at batch size {BATCH_SIZE}, which was timed"
        )
