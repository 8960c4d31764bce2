"""Compares the time of gradient steps on CPU, GPU and FPGA over the batch size (MAP VII-C, Fig. 11)."""

from collections.abc import Mapping, Sequence

import pandas as pd

from placerl.harness.mapping.absent_platforms import printed_mappings
from placerl.harness.papers import device_table, device_times
from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.charts import Panels
from placerl.harness.papers.clocks import LEARNERS, AtBothClocks
from placerl.harness.papers.device_order import ordered
from placerl.harness.papers.device_table import DeviceTable, OfDevices
from placerl.harness.papers.device_times import (
    FPGA,
    FPGA_AND_GPU,
    GPU,
    LEARNERS_OF_THE_PAPERS,
    fastest,
    lacking,
    learner_times,
    listed,
    missing_sizes,
    panel,
    shared_sizes,
)
from placerl.harness.papers.map.figure_12 import LARGE, SMALL
from placerl.harness.papers.number import from_text
from placerl.harness.papers.papers_own import AlsoAsInThePaper


class _OverBatches(AtBothClocks, AlsoAsInThePaper, OfDevices):
    """What the claims on the figure share: the times of a workload's gradient step over the batch size."""

    workload: str
    needs = FPGA_AND_GPU
    blocks = LEARNERS
    as_in_the_paper = LEARNERS_OF_THE_PAPERS

    def panels(self, frame: pd.DataFrame) -> Panels:
        words = ("the FPGA is fastest below (published)", "the GPU above (published)")
        published = [(name, number.value) for name, number in zip(words, self.published, strict=False)]
        return [panel(learner_times(frame, self.workload), f"{self.workload}: gradient step", published)]

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        rows, sizes = learner_times(frame, self.workload), list(printed_mappings(self.workload))
        return [device_table.of_times(rows, self.workload, "gradient step", sizes, self.stated(sizes))]

    def stated(self, sizes: Sequence[int]) -> Mapping[int, str]:
        """Return the device that MAP states to be fastest at each of some batch sizes of which it says so."""
        raise NotImplementedError


class _CrossesOver(_OverBatches):
    """Checks that a gradient step is fastest on the FPGA at small batches, and on the GPU at large ones."""

    def judge(self, frame: pd.DataFrame) -> Finding:
        by_kind = fastest(learner_times(frame, self.workload))
        ours = listed(by_kind)
        if needs := lacking(by_kind, GPU, FPGA):
            return Finding(Outcome.NOT_RUN, ours, needs=needs)
        small, large = (number.value for number in self.published)
        below = {size: FPGA for size in shared_sizes(by_kind) if size < small}
        above = {size: GPU for size in shared_sizes(by_kind) if size > large}
        if not below or not above:
            needs = f"{self.workload}'s learner on every device at batch sizes below {small:g} and above {large:g}"
            return Finding(Outcome.NOT_RUN, ours, needs=needs)
        return ordered(by_kind, below | above)

    def stated(self, sizes: Sequence[int]) -> Mapping[int, str]:
        small, large = (number.value for number in self.published)
        return {n: "FPGA" for n in sizes if n < small} | {n: "GPU" for n in sizes if n > large}


class HopperCrossesOver(_CrossesOver):
    key, place, position = "MAP-F11", "VII-C, Fig. 11", 9
    statement = "Hopper trains fastest on the FPGA at small batches and on the GPU at large ones"
    published = from_text("MAP.fpga_training_best_below_hopper", "MAP.gpu_training_best_above_hopper")
    workload = "hopper-ddpg"
    reads = device_times.reads(workload)


class PongCrossesOver(_CrossesOver):
    key, place, position = "MAP-F11-Pong", "VII-C, Fig. 11", 10
    statement = "Pong trains fastest on the FPGA at small batches and on the GPU at large ones"
    published = from_text("MAP.fpga_training_best_below_pong", "MAP.gpu_training_best_above_pong")
    workload = "pong-dqn"
    reads = device_times.reads(workload)
    commands = device_times.commands(workload, 8, 64)


class CartPoleIsFastestOnFpga(_OverBatches):
    """Checks MAP Fig. 11, CartPole: the FPGA trains fastest at every batch size.

    One batch size can refute the statement. To show it, the sizes have to reach from a small batch to a large one.
    """

    key, place, position = "MAP-F11-CartPole", "VII-C, Fig. 11", 11
    statement = "CartPole, whose network is small, trains fastest on the FPGA at every batch size"
    workload = "cartpole-ddpg"
    reads = device_times.reads(workload)
    commands = (f"placerl reproduce --only {key} --tier standard", "placerl report")

    def judge(self, frame: pd.DataFrame) -> Finding:
        by_kind = fastest(learner_times(frame, self.workload))
        ours = listed(by_kind)
        if needs := lacking(by_kind, GPU, FPGA):
            return Finding(Outcome.NOT_RUN, ours, needs=needs)
        sizes = shared_sizes(by_kind)
        if not sizes:
            return Finding(Outcome.NOT_RUN, ours, needs="one batch size on every device")
        found = ordered(by_kind, dict.fromkeys(sizes, FPGA))
        if found.outcome is not Outcome.NOT_REPRODUCED and (needs := missing_sizes(sizes, SMALL, LARGE)):
            needs = f"on every device {needs}; the tier standard has both"
            return Finding(Outcome.NOT_RUN, ours, found.explanation, needs=needs)
        return found

    def stated(self, sizes: Sequence[int]) -> Mapping[int, str]:
        return dict.fromkeys(sizes, "FPGA")
