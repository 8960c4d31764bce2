"""Checks which device determines throughput at small batches, and which at large ones (PRL 6.3, Fig. 8).

A device assignment names the device of the learner and that of replay management.
"""

from collections.abc import Sequence

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.assignments import Assignment
from placerl.harness.papers import charts
from placerl.harness.papers.base import Finding, Outcome, by_a_model
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.clocks import at_one_clock
from placerl.harness.papers.device_table import DeviceTable, OfDevices
from placerl.harness.papers.device_times import LEARNERS_OF_THE_PAPERS
from placerl.harness.papers.evidence import mapping_of, number
from placerl.harness.papers.number import Number, from_text, ratio
from placerl.harness.papers.papers_own import AlsoAsInThePaper
from placerl.harness.papers.prl.benchmarks import LARGE, SMALL, WORKLOADS
from placerl.harness.papers.slow_links import AtBothLatencies
from placerl.harness.papers.tried_mappings import of_trainings, tried_mappings

NEEDS_MAPPINGS = "every mapping run at a small and a large batch size (`placerl validate`)"
BOTH_SIZES = ("placerl validate --tier standard --only cartpole-dqn", "placerl report")
SECOND_DEVICE = "a CUDA device, or an OpenCL device that is not this CPU"
VALIDATE = ("placerl validate --tier quick", "placerl report")


def _reached(frame: pd.DataFrame) -> dict[tuple[str, int], dict[Assignment, Number]]:
    """Return the throughput by (workload, batch size) and device assignment, of the fastest mapping that ran
    under it.
    """
    return {
        (workload, size): {
            choice: number(row, f"{workload}, batch size {size}, {mapping_of(row)}")
            for choice, row in tried.items()
            if pd.notna(row.value)
        }
        for (workload, size), tried in tried_mappings(frame).items()
    }


def _spread(reached: dict[Assignment, Number], axis: str, name: str) -> Number | None:
    """Return how much the device on one axis changes throughput: largest over smallest, with the best other
    device.

    Modelled rates count only if there are no two devices without: next to others they would leave the pair undecided.
    """
    firm = {choice: n for choice, n in reached.items() if n.provenance is not Provenance.MODELLED}
    for some in (firm, reached):
        best: dict[str, Number] = {}
        for choice, n in some.items():
            device = getattr(choice, axis)
            if device not in best or n.value > best[device].value:
                best[device] = n
        if len(best) > 1:
            ordered = sorted(best.values(), key=lambda n: n.value)
            return ratio(name, ordered[-1], ordered[0])
    return None


def _more(one: Number, other: Number) -> bool | None:
    """Whether a number is above another with whole intervals; None if they overlap, or if one has none.

    Rates in virtual time hold measured work of the host: without an interval they were timed in too few rounds.
    """
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return True if one.low > other.high else False if one.high < other.low else None


class BatchDecidesWhichDeviceMatters(AtBothLatencies, AlsoAsInThePaper, OfDevices):
    """Checks PRL Fig. 8: the device of replay management decides at small batches, the learner's at large ones.

    The device of one of the two decides if choosing it changes throughput more than choosing the device of the other.
    PRL's own benchmarks are judged. A pair with a modelled rate decides nothing next to measured pairs; without
    measured pairs at both sizes, the statement is only compared with the formula.
    """

    key, place, position = "PRL-F8", "6.3, Fig. 8", 5
    statement = "At small batches the replay manager's device decides, at large ones the learner's"
    published = from_text("PRL.small_batch", "PRL.large_batch")
    needs = NEEDS_MAPPINGS
    reads = ("validation",)
    commands = BOTH_SIZES
    as_in_the_paper = LEARNERS_OF_THE_PAPERS
    decides = "mappings with parts on a CUDA device, at batch sizes 32 and 512 of one benchmark (`placerl validate`)"

    def judge(self, frame: pd.DataFrame) -> Finding:
        ours: list[Number] = []
        cases: dict[str, list[tuple[bool | None, bool]]] = {"small": [], "large": []}  # (decides, modelled)
        for (workload, size), mappings in sorted(_reached(frame).items()):
            which = "small" if size <= SMALL else "large" if size >= LARGE else ""
            learner, replay = (
                _spread(mappings, axis, f"{workload}, batch size {size}: best over worst device of {what}")
                for axis, what in (("learner", "the learner"), ("replay", "replay management"))
            )
            if workload in WORKLOADS and which and learner and replay:
                ours += [learner, replay]
                first, second = (replay, learner) if which == "small" else (learner, replay)
                modelled = Provenance.MODELLED in (first.provenance, second.provenance)
                cases[which].append((_more(first, second), modelled))
        if not all(cases.values()):
            sizes = {"small": f"up to batch size {SMALL}", "large": f"from batch size {LARGE} on"}
            missing = " and ".join(sizes[which] for which, some in cases.items() if not some)
            benchmarks = f"{', '.join(WORKLOADS[:-1])} or {WORKLOADS[-1]}"
            needs = f"every mapping of {benchmarks} run {missing}, on the CPU and the simulated FPGA or {SECOND_DEVICE}"
            return Finding(Outcome.NOT_RUN, tuple(ours), needs=needs)
        judged = {which: [decides for decides, _ in some] for which, some in cases.items()}
        said = (
            f"Replay management decides in {judged['small'].count(True)} of {len(judged['small'])} cases up to batch "
            f"size {SMALL}, the learner in {judged['large'].count(True)} of {len(judged['large'])} from {LARGE} on, "
            "each device with the fastest of its backends."
        )
        said += at_one_clock(n.provenance for n in ours)
        shown = {
            which: [decides for decides, modelled in some if not modelled] for which, some in cases.items()
        }
        every = [decides for some in shown.values() for decides in some]
        if False in every:
            return Finding(Outcome.NOT_REPRODUCED, tuple(ours), said)
        if not all(shown.values()):
            unknown = "The formula does not know what else the accelerator's units wait for."
            agrees = all(decides for some in judged.values() for decides in some)
            return by_a_model(agrees, tuple(ours), said, unknown=unknown)
        if any(modelled for some in cases.values() for _, modelled in some):
            said += " Cases with a modelled rate decide nothing next to measured ones."
        return Finding(Outcome.IN_KIND if all(every) else Outcome.NO_VERDICT, tuple(ours), said)

    def panels(self, frame: pd.DataFrame) -> Panels:
        by_workload: dict[str, dict[Assignment, list[tuple[int, Number]]]] = {}
        for (workload, size), by_choice in sorted(_reached(frame).items()):
            for choice, reached in by_choice.items():
                by_workload.setdefault(workload, {}).setdefault(choice, []).append((size, reached))
        return [
            Panel(
                "batch size",
                "gradient steps (1/s)",
                [
                    charts.line(f"learner and replay on {choice}", points)
                    for choice, points in by_choice.items()
                ],
                workload,
                log_x=True,
                log_y=True,
                published_x=[
                    ("the replay's device decides up to (published)", SMALL),
                    ("the learner's from (published)", LARGE),
                ],
            )
            for workload, by_choice in by_workload.items()
        ]

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        stated = {
            SMALL: "the device of replay management decides",
            LARGE: "the device of the learner decides",
        }
        tried = tried_mappings(frame)
        return [
            of_trainings(tried, workload, part, (SMALL, LARGE), stated)
            for workload in WORKLOADS
            for part in ("learner", "replay")
        ]
