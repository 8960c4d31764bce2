"""Draws the times of primitives on CPU, GPU and FPGA over the batch size (PRL 6.2, Fig. 6 and 7)."""

from collections.abc import Sequence

import pandas as pd

from placerl.harness.mapping import pearl24_authors
from placerl.harness.papers import device_table, device_times
from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.charts import Panels
from placerl.harness.papers.clocks import LEARNERS, REPLAY, AtBothClocks
from placerl.harness.papers.device_order import (
    exact,
    first_at,
    outcome_of,
    outcome_with_copies,
    told,
    who_is_first,
)
from placerl.harness.papers.device_table import Cells, DeviceTable, OfDevices
from placerl.harness.papers.device_times import (
    AT_MOST,
    CPU,
    FPGA,
    GPU,
    LEARNERS_OF_THE_PAPERS,
    NAMES,
    WITHOUT_LINK,
    fastest,
    lacking,
    learner_times,
    listed,
    panel,
    shared_sizes,
    times,
)
from placerl.harness.papers.number import Number, from_cell, ratio, scaled
from placerl.harness.papers.papers_own import AlsoAsInThePaper
from placerl.harness.papers.prl.benchmarks import LARGE, SMALL, missing_sizes

WORKLOAD = "cartpole-dqn"
CALLS = {"sum_tree.sample": "sampling", "sum_tree.update": "priority update"}
"""Names of the replay operations, as readers see them."""
AUTHORS_DEVICES = {CPU: ("CPU",), GPU: ("GPU1", "GPU2"), FPGA: ("FPGA",)}
"""The devices of the profile that PRL's authors committed (`results/papers/prl_authors_times.csv`), by kind."""


def _authors_times(primitive: str) -> Cells:
    """Return the times of a primitive that PRL's authors committed for their composer, at its batch size."""
    size, words = pearl24_authors.BATCH_SIZE, "the authors' profile"
    return device_table.cells(
        (kind, size, scaled(from_cell("prl_authors_times", row, primitive), 1e-3, "s"), words)
        for kind, rows in AUTHORS_DEVICES.items()
        for row in rows
    )


def _without_link(first: str | None, kind: str) -> str | None:
    """Return which of a kind of device and the CPU grows less; None where the FPGA's missing link could turn it.

    PRL's times hold transfers, whose latency is the same at every batch size. With it the FPGA's times grow by a
    smaller factor, so that those of its cycles alone can show the statement, and not refute it.
    """
    return None if (first, kind) == (CPU, FPGA) else first


class ReplayScalesOnDevices(AtBothClocks, OfDevices):
    """Checks PRL Fig. 6: on GPU and FPGA, the time of replay operations grows less with the batch than on the CPU.

    The growth is the time at the largest batch size that all three devices have, divided by that at the smallest. The
    sizes have to reach from a small batch to a large one (`missing_sizes`).
    """

    key, place, position = "PRL-F6", "6.2, Fig. 6", 3
    statement = "Replay operations scale better with the batch on GPU and FPGA than on the CPU"
    needs = "a CUDA device and FPGA primitives (simulated), at small and large batch sizes"
    reads = device_times.reads(WORKLOAD)
    blocks = REPLAY
    commands = ("placerl reproduce --only PRL-F6 --tier standard", "placerl report")

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = times(frame, WORKLOAD, *CALLS)
        grown: dict[str, dict[str, Number]] = {}
        unreached = ""
        for primitive, some in rows.groupby("primitive"):
            by_kind = fastest(some)
            sizes = shared_sizes(by_kind)
            if len(sizes) < 2:
                continue
            unreached = unreached or missing_sizes(sizes)
            low, high = sizes[0], sizes[-1]
            for kind in (each for each in (CPU, GPU, FPGA) if each in by_kind):
                name = f"{CALLS[str(primitive)]} on {NAMES[kind]}: batch size {high} over {low}"
                growth = ratio(name, exact(by_kind[kind][high]), exact(by_kind[kind][low]))
                grown.setdefault(kind, {})[str(primitive)] = growth
        ours = tuple(n for numbers in grown.values() for n in numbers.values())
        if needs := lacking({kind: {} for kind in rows["kind"]}, CPU, GPU, FPGA):
            return Finding(Outcome.NOT_RUN, ours, needs=needs)
        worst = {kind: max(n.value for n in numbers.values()) for kind, numbers in grown.items()}
        judged = [
            (_without_link(first_at({kind: {0: of_kind}, CPU: {0: grown[CPU][primitive]}}, 0), kind), kind)
            for kind in (GPU, FPGA)
            for primitive, of_kind in grown.get(kind, {}).items()
            if primitive in grown.get(CPU, {})
        ]
        if {kind for _, kind in judged} != {GPU, FPGA}:
            return Finding(Outcome.NOT_RUN, ours, needs="two batch sizes on every device")
        if unreached:
            return Finding(Outcome.NOT_RUN, ours, needs=f"{unreached}; the tier standard has both")
        said = "; ".join(
            f"{NAMES[kind]} up to {value:.3g} times as long" for kind, value in sorted(worst.items())
        )
        return Finding(
            outcome_of(judged),
            ours,
            f"From the smallest batch to the largest: {said}. {WITHOUT_LINK} PRL's times hold both transfers (6.2), "
            "with which the FPGA's would grow by a smaller factor: that they grow by a larger one than the CPU's "
            "refutes nothing.",
        )

    def panels(self, frame: pd.DataFrame) -> Panels:
        return [panel(times(frame, WORKLOAD, call), f"{WORKLOAD}: {name}") for call, name in CALLS.items()]

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        return [
            device_table.of_times(
                times(frame, WORKLOAD, call), WORKLOAD, name, (SMALL, LARGE), published=_authors_times(call)
            )
            for call, name in CALLS.items()
        ]


class LearnerIsFastestOnDevices(AtBothClocks, AlsoAsInThePaper, OfDevices):
    """Checks PRL Fig. 7: a gradient step is faster on the GPU than on the CPU, and on the FPGA if it is small.

    The FPGA has to be fastest at the smallest batch size, and the GPU at the largest. The sizes have to reach from a
    small batch to a large one (`missing_sizes`): between 32 and 256 alone nothing is shown of large ones. PRL's learner
    on the FPGA is copies of a pipeline with units for every layer (4.2.1), as MAP's is; of the simulated learners the
    faster one counts (`learner_times`).
    """

    key, place, position = "PRL-F7", "6.2, Fig. 7", 4
    statement = (
        "A gradient step is faster on the GPU than on the CPU, and fastest on the FPGA when it is small"
    )
    needs = "a CUDA device and an FPGA learner (simulated), at small and large batch sizes"
    reads = device_times.reads(WORKLOAD)
    blocks = LEARNERS
    commands = ("placerl reproduce --only PRL-F7 --tier standard", "placerl report")
    as_in_the_paper = LEARNERS_OF_THE_PAPERS

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = learner_times(frame, WORKLOAD)
        by_kind = fastest(rows)
        ours = listed(by_kind)
        if needs := lacking(by_kind, CPU, GPU, FPGA):
            return Finding(Outcome.NOT_RUN, ours, needs=needs)
        sizes = shared_sizes(by_kind)
        if needs := missing_sizes(sizes):
            return Finding(Outcome.NOT_RUN, ours, needs=f"{needs}; the tier standard has both")
        first = {size: first_at(by_kind, size) for size in sizes}
        two = {kind: by_kind[kind] for kind in (CPU, GPU)}
        over_cpu = [first_at(two, size) for size in sizes]
        largest = told(first[sizes[-1]], GPU)
        judged = [(first[sizes[0]], FPGA), (largest, GPU), *((one, GPU) for one in over_cpu)]
        said = (
            f"The GPU is faster than the CPU at {over_cpu.count(GPU)} of {len(sizes)} batch sizes. "
            f"{who_is_first(first)} {WITHOUT_LINK} {AT_MOST} PRL's times of Fig. 6 hold both transfers (6.2); of "
            "Fig. 7 it does not say."
        )
        return Finding(outcome_with_copies(judged), ours, said)

    def panels(self, frame: pd.DataFrame) -> Panels:
        rows = learner_times(frame, WORKLOAD)
        return [panel(rows, f"{WORKLOAD}: gradient step")]

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        stated = {SMALL: "FPGA", LARGE: "GPU before CPU"}
        rows = learner_times(frame, WORKLOAD)
        theirs = _authors_times("learner.step")
        return [device_table.of_times(rows, WORKLOAD, "gradient step", (SMALL, LARGE), stated, theirs)]
