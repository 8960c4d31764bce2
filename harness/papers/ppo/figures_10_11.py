"""Checks PPO Fig. 10 and 11: training and inferences on the accelerator against the CPU and the GPU.

The checks use the stored measurements of Table 2. Times on the accelerator are lower bounds, and gains are upper
bounds (`table_2`).
"""

from collections.abc import Sequence
from functools import partial

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.predict import slow_link
from placerl.harness.papers import charts
from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.clocks import CONVOLUTIONS
from placerl.harness.papers.device_table import DeviceTable, OfDevices
from placerl.harness.papers.number import Number
from placerl.harness.papers.ppo import table_2, table_2_devices, table_2_iterations, table_2_libraries
from placerl.harness.papers.ppo.judged_iterations import (
    PARTS,
    Gains,
    VirtualGain,
    bands,
    gain_of,
    gain_over,
    judged,
)
from placerl.harness.papers.ppo.table_2 import (
    BOUNDS,
    CPU,
    GPU,
    MUJOCO,
    NEEDS,
    NEEDS_CUDA,
    MeasuredIteration,
    TimedIteration,
    alike_but_for_minibatches,
    cores_used_in_words,
    ends_of_minibatches,
    gain_at_most,
    iteration_name,
    joined_of,
    measured_iterations,
    of_samples,
    outcome_of_bounds,
    upper_end,
)
from placerl.harness.papers.ppo.table_2_libraries import BASELINES_OF_THE_PAPER, ComparedWithLibraries

SLIGHTLY = 1.5
"""Largest ratio of times that counts as "slightly slower" (PPO 5.3.1, which gives no number)."""


def _speed_ups(
    frame: pd.DataFrame, benchmark: str, device: str, words: str
) -> tuple[list[Number], list[Number]]:
    """Return upper bounds of the accelerator's speedups over a device: for training, and for inferences."""
    training: list[Number] = []
    inference: list[Number] = []
    for timed, item in measured_iterations(frame, benchmark, device).items():
        for name, speedups in (("training", training), ("inference", inference)):
            samples = item.part_s(*PARTS[name][1]) / item.accelerator_s(name)
            title = f"{iteration_name(benchmark, timed)}: {name}, FPGA over {words}, at most"
            speedups.append(of_samples(title, samples, "ratio", item, Provenance.SIMULATED))
    return training, inference


def _slowdowns(benchmark: str, items: dict[TimedIteration, MeasuredIteration]) -> list[tuple[Number, Number]]:
    """Return training time with the smallest mini-batch over that with the largest, on the CPU and on the
    accelerator.
    """
    slowdowns = []
    for small, large in ends_of_minibatches(items):
        few, many = items[small], items[large]
        rounds = min(len(few.wall_s), len(many.wall_s))
        samples = few.part_s("learner")[:rounds] / many.part_s("learner")[:rounds]
        name = f"{iteration_name(benchmark, small)}: training over that with M={large.iteration.minibatch}"
        timed = MeasuredIteration(few.timed, many.timed)
        here = of_samples(f"{name}, CPU", samples, "ratio", timed, Provenance.MEASURED)
        cycles = few.accelerator_s("training") / many.accelerator_s("training")
        rows, source = MeasuredIteration(few.counted, many.counted).rows, "cycles of the RTL"
        there = Number(f"{name}, FPGA", cycles, "ratio", Provenance.SIMULATED, source, rows=rows)
        slowdowns.append((here, there))
    return slowdowns


def _parts_in_virtual_time(frame: pd.DataFrame) -> Gains:
    """Return the gains of training and of inferences in virtual time, with transfers, objective and Adam.

    A further statement for each pair of iterations that differ only in the mini-batch is that the small one gains more
    in training: it slows down training less than on the CPU.
    """
    gains: list[VirtualGain] = []
    pairs: list[VirtualGain] = []
    for benchmark in MUJOCO:
        both = joined_of(frame, benchmark)
        trained: dict[TimedIteration, VirtualGain] = {}
        for timed, (item, there) in both.items():
            rows = tuple(sorted({*item.rows, int(there.row.Index)}))
            for part, (_, terms) in PARTS.items():
                name = f"{iteration_name(benchmark, timed)}: {part}, FPGA over CPU"
                quick, slow = (
                    there.part_s(part, timed.iteration, latency)
                    for latency in (0.0, 1e-6 * slow_link().value)
                )
                gains.append(gain_of(name, item.part_s(*terms), quick, slow, rows))
                if part == "training":
                    trained[timed] = gains[-1]
        for small, large in ends_of_minibatches(both):
            over = f"that with M={large.iteration.minibatch}"
            name = f"{iteration_name(benchmark, small)}: its gain in training over {over}"
            pairs.append(gain_over(name, trained[small], trained[large]))
    return bands(gains, pairs)


def _panel(frame: pd.DataFrame, benchmark: str) -> Panel:
    lines = []
    for device, words in ((CPU, "CPU"), (GPU, "GPU")):
        items = _most_alike(measured_iterations(frame, benchmark, device))
        for part, name in (("training", "training"), ("inference", "inferences")):
            points = [
                (size, of_samples(words, item.part_s(*PARTS[part][1]), "s", item, Provenance.MEASURED))
                for size, item in items
            ]
            lines.append(charts.line(f"{name} on the {words}", points))
    items = _most_alike(measured_iterations(frame, benchmark) or measured_iterations(frame, benchmark, GPU))
    for name in ("training", "inference"):
        label = "training" if name == "training" else "inferences"
        points = [
            (size, Number(label, item.accelerator_s(name), "s", Provenance.SIMULATED, rows=item.rows))
            for size, item in items
        ]
        lines.append(charts.line(f"{label} on the FPGA, at least", points))
    return Panel(
        "mini-batch M",
        "time of an iteration's part (s)",
        lines,
        benchmark,
        log_x=True,
        log_y=True,
    )


def _most_alike(items: dict[TimedIteration, MeasuredIteration]) -> list[tuple[int, MeasuredIteration]]:
    """Return the most iterations of one program that differ only in their mini-batch, each with its size."""
    most = max(alike_but_for_minibatches(items), key=len, default=[])
    return [(timed.iteration.minibatch, items[timed]) for timed in most]


class MujocoTimes(table_2.OfRobots):
    """Checks PPO Fig. 10: on MuJoCo, training and inferences are faster on the accelerator than on the CPU.

    Small mini-batches also have to slow down training less on the accelerator.
    """

    key, place, position = "PPO-F10", "5.3.1, Fig. 10", 9
    statement = (
        "MuJoCo trains and infers faster on the FPGA than on the CPU, and its training slows down less with small "
        "mini-batches"
    )
    needs = table_2.NEEDS
    as_in_the_paper = BASELINES_OF_THE_PAPER

    def judge(self, frame: pd.DataFrame) -> Finding:
        ours: list[Number] = []
        timed: list[MeasuredIteration] = []
        refuted: list[bool] = []
        for benchmark in MUJOCO:
            items = measured_iterations(frame, benchmark)
            timed += items.values()
            for gain in (each for part in _speed_ups(frame, benchmark, CPU, "CPU") for each in part):
                ours.append(gain)
                refuted.append(upper_end(gain) < 1)
            for here, there in _slowdowns(benchmark, items):
                ours += [here, there]
                # What is left out takes no less time with small mini-batches, but may hide how much longer products
                # take.
                refuted.append(upper_end(here) < min(1, there.value))
        if not ours:
            return Finding(Outcome.NOT_RUN, needs=NEEDS)
        explanation = (
            f"Of {len(refuted)} statements, that the accelerator is faster at training and at inferences and loses "
            f"less by small mini-batches than the CPU, {sum(refuted)} are refuted. {BOUNDS} The figure's own factors "
            f"are lost, and its bars of a GPU are not judged. {cores_used_in_words(timed)}"
        )
        bounds = Finding(outcome_of_bounds(refuted), tuple(ours), explanation)
        return judged(bounds, _parts_in_virtual_time(frame))

    def panels(self, frame: pd.DataFrame) -> Panels:
        return [_panel(frame, benchmark) for benchmark in MUJOCO]


class PongTimes(ComparedWithLibraries, OfDevices):
    """Checks PPO Fig. 11: on Pong the accelerator trains slightly slower than a GPU and infers faster."""

    key, place, position = "PPO-F11", "5.3.1, Fig. 11", 10
    statement = (
        "Pong trains slightly slower on the FPGA than on the GPU and infers faster, for more inferences a "
        "second"
    )
    needs = f"{table_2.NEEDS}; {table_2.NEEDS_CUDA}"
    blocks = CONVOLUTIONS
    measured_by = tuple(
        partial(module.cells, benchmarks=("Pong",)) for module in (table_2_iterations, table_2_libraries)
    )
    as_in_the_paper = BASELINES_OF_THE_PAPER
    timed_by = "placerl gpu-claims"

    def judge(self, frame: pd.DataFrame) -> Finding:
        cpu = [gain for part in _speed_ups(frame, "Pong", CPU, "CPU") for gain in part]
        training, inference = _speed_ups(frame, "Pong", GPU, "GPU")
        if not cpu:
            return Finding(Outcome.NOT_RUN, needs=f"{NEEDS}; {NEEDS_CUDA}")
        if not training:
            said = "Compared with the CPU only; the statement is about a GPU."
            return Finding(Outcome.NOT_RUN, tuple(cpu), said, needs=NEEDS_CUDA)
        items = measured_iterations(frame, "Pong", GPU)
        over = [gain_at_most("Pong", *item, "CPU and GPU") for item in items.items()]
        refuted = [upper_end(gain) < 1 / SLIGHTLY for gain in training]
        refuted += [upper_end(gain) < 1 for gain in (*inference, *over)]
        said = (
            f"Of {len(refuted)} statements {sum(refuted)} are refuted: training that takes over {SLIGHTLY:g} times as "
            f"long as a GPU's is not slightly slower, and the rest must not be slower. {BOUNDS} "
            f"{cores_used_in_words(items.values())}"
        )
        return Finding(outcome_of_bounds(refuted), (*training, *inference, *over, *cpu), said)

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        return table_2_devices.tables(frame, "Pong")

    def panels(self, frame: pd.DataFrame) -> Panels:
        return [_panel(frame, "Pong")]
