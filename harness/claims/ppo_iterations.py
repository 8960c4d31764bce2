"""Checks of PPO Table 2, Fig. 10 and 11 over timed iterations and simulated cycles (`harness.ppo_iterations`).

An iteration on CPU and FPGA takes what the host does, as it was timed here, and the accelerator's cycles at the paper's
clock. Transfers come on top in the paper, which gives no time for them: these are the least times.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness import comparison
from harness.claims.base import Finding, Outcome
from harness.claims.comparisons import gains
from harness.claims.evidence import detail, records, select
from harness.claims.number import Number, from_cell, ratio
from harness.ppo_iterations import BENCHMARKS, CYCLES, EXPERIMENT, TIME, table_2
from harness.provenance import Provenance
from primitives.fpga.cycles.ppo import Iteration

MUJOCO = ("Hopper", "Humanoid")
NEEDS = "the experiment PPO-T2: PPO's iterations timed here, and their products simulated"
NEEDS_CUDA = "a CUDA device"
CPU, GPU, FPGA = "cpu", "cuda", "fpga"
NEAR = 0.2
SOURCE = "host timed, products simulated, transfers left out"


class Found(NamedTuple):
    """An iteration on a device that is here, and on the accelerator; rows of the store."""

    timed: Any
    counted: Any

    @property
    def wall_s(self) -> npt.NDArray:
        """Of the whole iteration, a sample each."""
        return np.array(self.timed.samples)

    def part_s(self, name: str) -> npt.NDArray:
        """Of a part: environment, infer, prepare or learner."""
        return np.array(detail(self.timed, "terms_s")[name])

    def accelerator_s(self, name: str) -> float:
        """Of the accelerator's inferences or training."""
        return float(detail(self.counted, "cycles")[name] / (1e6 * detail(self.counted, "clock_mhz")))

    @property
    def host_s(self) -> npt.NDArray:
        """Of what stays on the CPU: environments above all."""
        return self.wall_s - self.part_s("infer") - self.part_s("learner")

    @property
    def joined_s(self) -> npt.NDArray:
        """Of the iteration with inferences and training on the accelerator."""
        return self.host_s + self.accelerator_s("inference") + self.accelerator_s("training")

    @property
    def rows(self) -> tuple[int, ...]:
        """Index labels."""
        return tuple(sorted({int(self.timed.Index), int(self.counted.Index)}))


def _of(row: Any) -> Iteration:
    return Iteration(**detail(row, "iteration"))


def found(frame: pd.DataFrame, benchmark: str, device: str = CPU) -> dict[Iteration, Found]:
    """The iterations of a benchmark that were timed on a device and counted."""
    rows = select(frame, suite="claim", workload=BENCHMARKS[benchmark], primitive="training")
    mine = [row for row in records(rows) if detail(row, "experiment") == EXPERIMENT]
    counted = {_of(row): row for row in mine if row.quantity == CYCLES}
    timed = {_of(row): row for row in mine if row.quantity == TIME and row.device == device}
    return {item: Found(row, counted[item]) for item, row in timed.items() if item in counted}


def _number(quantity: str, samples: npt.NDArray, unit: str, item: Found, provenance: Provenance) -> Number:
    low = high = None
    if len(samples) >= comparison.FEWEST_SAMPLES:
        low, high = comparison.interval(samples)
    source = f"{len(samples)} iterations" + (f", {SOURCE}" if provenance is not Provenance.MEASURED else "")
    return Number(quantity, float(np.median(samples)), unit, provenance, source, low, high, item.rows)


def _name(benchmark: str, iteration: Iteration) -> str:
    return f"{benchmark}, N={iteration.agents}, T={iteration.steps}, M={iteration.minibatch}"


def _rates(benchmark: str, iteration: Iteration, item: Found, device: str) -> tuple[Number, Number]:
    """Inferences a second of the device that is here, and of the CPU with the accelerator."""
    name = _name(benchmark, iteration)
    here = _number(f"{name}: {device}", iteration.samples / item.wall_s, "IPS", item, Provenance.MEASURED)
    joined = iteration.samples / item.joined_s
    return here, _number(f"{name}: CPU and FPGA", joined, "IPS", item, Provenance.SIMULATED)


def _gain(benchmark: str, iteration: Iteration, item: Found, device: str) -> Number:
    name = f"{_name(benchmark, iteration)}: CPU and FPGA over {device}"
    return _number(name, item.wall_s / item.joined_s, "ratio", item, Provenance.SIMULATED)


def published_gains(benchmark: str, columns: str, base: str = "CPU") -> list[tuple[Iteration, Number]]:
    """PPO Table 2: CPU-FPGA over another platform, of the columns in which M, N or T is varied."""
    made = []
    for library in ("Spinning Up", "Baselines"):
        row = f"{benchmark}, {library}"
        for column, iteration in table_2(benchmark, library).items():
            if column[0] in columns:
                ours, theirs = (
                    from_cell("ppo_table_2", f"{row}, {name}", column) for name in ("CPU-FPGA", base)
                )
                made.append((iteration, ratio(f"{row}, {column}: CPU-FPGA over {base}", ours, theirs)))
    return made


def _least(number: Number) -> float:
    return number.value if number.low is None else number.low


def _most(number: Number) -> float:
    return number.value if number.high is None else number.high


def _judged(shown: Sequence[bool], refuted: Sequence[bool]) -> Outcome:
    """In kind where all is shown, not reproduced where anything is refuted; else no verdict."""
    if all(shown):
        return Outcome.IN_KIND
    return Outcome.NOT_REPRODUCED if any(refuted) else Outcome.NO_VERDICT


def over_cpu(frame: pd.DataFrame) -> Finding:
    """PPO Table 2: what the accelerator gains over the CPU alone, and that most with small mini-batches."""
    ours: list[Number] = []
    near, shown, refuted, shares = [], [], [], []
    for benchmark in MUJOCO:
        items, published = found(frame, benchmark), published_gains(benchmark, "MNT")
        gains_here = {
            iteration: _gain(benchmark, iteration, item, "CPU") for iteration, item in items.items()
        }
        for iteration, gain in gains_here.items():
            printed = [number.value for other, number in published if other == iteration]
            near.append(any(abs(gain.value / value - 1) <= NEAR for value in printed))
            shown.append(_least(gain) > 1)
            refuted.append(_most(gain) < 1)
        for small, large in _ends(items):
            shown.append(_least(gains_here[small]) > _most(gains_here[large]))
            refuted.append(_most(gains_here[small]) < _least(gains_here[large]))
        ours += gains_here.values()
        shares += [np.median(1 - item.host_s / item.wall_s) for item in items.values()]
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=NEEDS)
    explanation = (
        "The published CPUs run TensorFlow under OpenAI Baselines or Spinning Up, which no longer install; here it is "
        "this project's own learner, and inferences and training, all that the accelerator can save, are "
        f"{min(shares):.0%} to {max(shares):.0%} of the iterations. Of {len(shown)} statements {sum(shown)} are shown "
        f"and {sum(refuted)} refuted; {sum(near)} of {len(near)} gains are within a fifth of a published one."
    )
    outcome = _judged(shown, refuted)
    if outcome is Outcome.IN_KIND and all(near):
        outcome = Outcome.REPRODUCED
    return Finding(outcome, tuple(ours), explanation)


def platforms(frame: pd.DataFrame) -> Finding:
    """PPO Table 2, MuJoCo: inferences a second on the three platforms, and the accelerator's gain over the GPU."""
    ours: list[Number] = []
    over_gpu: list[Number] = []
    for benchmark in MUJOCO:
        for iteration, item in found(frame, benchmark).items():
            ours += _rates(benchmark, iteration, item, "CPU")
        for iteration, item in found(frame, benchmark, GPU).items():
            ours.append(_rates(benchmark, iteration, item, "CPU and GPU")[0])
            over_gpu.append(_gain(benchmark, iteration, item, "CPU and GPU"))
    stand_ins = [gain.ratio for gain in gains(frame, "sb3") if "-ppo" in gain.ratio.quantity]
    explanation = (
        "Stable-Baselines3's PPO stands in for OpenAI Baselines and Spinning Up."
        if stand_ins
        else "Stable-Baselines3's PPO, which stands in for OpenAI Baselines and Spinning Up, was not run beside it "
        "(`placerl compare hopper-ppo --baselines sb3`)."
    )
    if not ours:
        return Finding(Outcome.NOT_RUN, tuple(stand_ins), explanation, needs=f"{NEEDS}; {NEEDS_CUDA}")
    if not over_gpu:
        return Finding(Outcome.NOT_RUN, (*ours, *stand_ins), explanation, needs=NEEDS_CUDA)
    outcome = _judged([_least(gain) > 1 for gain in over_gpu], [_most(gain) < 1 for gain in over_gpu])
    return Finding(outcome, (*ours, *over_gpu, *stand_ins), explanation)


def _speed_ups(
    frame: pd.DataFrame, benchmark: str, device: str, words: str
) -> tuple[list[Number], list[Number]]:
    """The accelerator over a device: training, and inferences."""
    training: list[Number] = []
    inference: list[Number] = []
    for iteration, item in found(frame, benchmark, device).items():
        for part, name, made in (("learner", "training", training), ("infer", "inference", inference)):
            samples = item.part_s(part) / item.accelerator_s(name)
            title = f"{_name(benchmark, iteration)}: {name}, FPGA over {words}"
            made.append(_number(title, samples, "ratio", item, Provenance.SIMULATED))
    return training, inference


def _ends(items: dict[Iteration, Found]) -> list[tuple[Iteration, Iteration]]:
    """Iterations with the smallest and the largest mini-batch, of those that are else alike."""
    alike: dict[tuple[int, int, int], list[Iteration]] = {}
    for iteration in items:
        alike.setdefault((iteration.agents, iteration.steps, iteration.epochs), []).append(iteration)
    found = [sorted(some, key=lambda each: each.minibatch) for some in alike.values()]
    return [(some[0], some[-1]) for some in found if len(some) > 1]


def _slowdowns(benchmark: str, items: dict[Iteration, Found]) -> list[tuple[Number, Number]]:
    """Training with the smallest mini-batch over that with the largest, on the CPU and on the accelerator."""
    made = []
    for small, large in _ends(items):
        few, many = items[small], items[large]
        rounds = min(len(few.wall_s), len(many.wall_s))
        samples = few.part_s("learner")[:rounds] / many.part_s("learner")[:rounds]
        name = f"{_name(benchmark, small)}: training over that with M={large.minibatch}"
        timed = Found(few.timed, many.timed)
        here = _number(f"{name}, CPU", samples, "ratio", timed, Provenance.MEASURED)
        cycles = few.accelerator_s("training") / many.accelerator_s("training")
        rows, source = Found(few.counted, many.counted).rows, "cycles of the RTL"
        there = Number(f"{name}, FPGA", cycles, "ratio", Provenance.SIMULATED, source, rows=rows)
        made.append((here, there))
    return made


def mujoco_times(frame: pd.DataFrame) -> Finding:
    """PPO Fig. 10: training and inferences of MuJoCo beside the CPU, and what smaller mini-batches cost each."""
    ours: list[Number] = []
    shown: list[bool] = []
    refuted: list[bool] = []
    for benchmark in MUJOCO:
        for gain in (each for part in _speed_ups(frame, benchmark, CPU, "CPU") for each in part):
            ours.append(gain)
            shown.append(_least(gain) > 1)
            refuted.append(_most(gain) < 1)
        for here, there in _slowdowns(benchmark, found(frame, benchmark)):
            ours += [here, there]
            shown.append(_least(here) > there.value)
            refuted.append(_most(here) < there.value)
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=NEEDS)
    explanation = (
        f"Of {len(shown)} statements, that the accelerator is faster at training and at inferences and loses less by "
        f"small mini-batches than the CPU, {sum(shown)} are shown and {sum(refuted)} refuted. The figure's own factors "
        "are lost, and its bars of a GPU need one."
    )
    return Finding(_judged(shown, refuted), tuple(ours), explanation)


def pong_times(frame: pd.DataFrame) -> Finding:
    """PPO Fig. 11: on Pong the accelerator trains slightly slower than a GPU and infers faster, for more inferences."""
    cpu = [gain for part in _speed_ups(frame, "Pong", CPU, "CPU") for gain in part]
    training, inference = _speed_ups(frame, "Pong", GPU, "GPU")
    if not cpu:
        return Finding(Outcome.NOT_RUN, needs=f"{NEEDS}; {NEEDS_CUDA}")
    if not training:
        said = "Beside the CPU alone; the statement is about a GPU."
        return Finding(Outcome.NOT_RUN, tuple(cpu), said, needs=NEEDS_CUDA)
    over = [_gain("Pong", *item, "CPU and GPU") for item in found(frame, "Pong", GPU).items()]
    shown = [_most(gain) < 1 for gain in training] + [_least(gain) > 1 for gain in (*inference, *over)]
    refuted = [_least(gain) > 1 for gain in training] + [_most(gain) < 1 for gain in (*inference, *over)]
    said = f"Of {len(shown)} comparisons {sum(shown)} are as stated, {sum(refuted)} the other way round."
    return Finding(_judged(shown, refuted), (*training, *inference, *over, *cpu), said)
