"""Checks of PPO Table 2, Fig. 10 and 11 over timed iterations and simulated cycles (`harness.papers.ppo.iterations`).

An iteration on CPU and FPGA takes what the host does, as it was timed here, and the accelerator's cycles at the paper's
clock. Transfers, losses and Adam come on top in the paper, which gives no time for them: these are the least times, and
gains made of them upper bounds. One below 1 refutes that the accelerator is faster, and bounds that all lie below the
published gains refute these; no bound shows a gain.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.core.provenance import Provenance
from harness.measure import statistics
from harness.papers.base import Finding, Outcome
from harness.papers.comparisons import gains
from harness.papers.evidence import detail, records, select
from harness.papers.number import Number, checked_baseline, from_cell, ratio
from harness.papers.ppo.iterations import BENCHMARKS, CYCLES, EXPERIMENT, TIME, table_2
from primitives.fpga.cycles.ppo import Iteration

MUJOCO = ("Hopper", "Humanoid")
NEEDS = "the experiment PPO-T2: PPO's iterations timed here, and their products simulated"
NEEDS_CUDA = "a CUDA device"
CPU, GPU, FPGA = "cpu", "cuda", "fpga"
SLIGHTLY = 1.5
"""Times as long: what still counts as "slightly slower" (PPO 5.3.1, which gives no number)."""
SOURCE = "host timed, products simulated; upper bound: no transfers, no Adam or loss"
BOUNDS = (
    "A gain is an upper bound: no transfers, no Adam or loss, and dealing mini-batches, the host's work, is counted "
    "as the accelerator's. It can refute a gain, not show one."
)


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

    @property
    def parts_s(self) -> npt.NDArray:
        """Of all parts, one after the other."""
        return np.sum(list(detail(self.timed, "terms_s").values()), axis=0)

    def accelerator_s(self, name: str) -> float:
        """Of the accelerator's inferences or training."""
        return float(detail(self.counted, "cycles")[name] / (1e6 * detail(self.counted, "clock_mhz")))

    @property
    def host_s(self) -> npt.NDArray:
        """Of what stays on the CPU: environments above all."""
        return self.wall_s - self.part_s("infer") - self.part_s("learner")

    @property
    def joined_s(self) -> npt.NDArray:
        """Of the iteration with inferences and training on the accelerator, at least."""
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
    if len(samples) >= statistics.FEWEST_SAMPLES:
        low, high = statistics.interval(samples)
    source = f"{len(samples)} iterations" + (f", {SOURCE}" if provenance is not Provenance.MEASURED else "")
    return Number(quantity, float(np.median(samples)), unit, provenance, source, low, high, item.rows)


def _name(benchmark: str, iteration: Iteration) -> str:
    return f"{benchmark}, N={iteration.agents}, T={iteration.steps}, M={iteration.minibatch}"


def _rates(benchmark: str, iteration: Iteration, item: Found, device: str) -> tuple[Number, Number]:
    """Inferences a second of the device that is here, and of the CPU with the accelerator."""
    name = _name(benchmark, iteration)
    here = _number(f"{name}: {device}", iteration.samples / item.wall_s, "IPS", item, Provenance.MEASURED)
    joined = iteration.samples / item.joined_s
    return here, _number(f"{name}: CPU and FPGA, at most", joined, "IPS", item, Provenance.SIMULATED)


def _gain(benchmark: str, iteration: Iteration, item: Found, device: str) -> Number:
    name = f"{_name(benchmark, iteration)}: CPU and FPGA over {device}, at most"
    here, _ = _rates(benchmark, iteration, item, device)
    # What no part accounts for would count as the host's, and lower the bound.
    baseline = checked_baseline(here, float(np.median(item.parts_s)) / iteration.samples)
    gain = _number(name, item.wall_s / item.joined_s, "ratio", item, Provenance.SIMULATED)
    return replace(gain, suspect=baseline.suspect)


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


def _most(number: Number) -> float:
    return number.value if number.high is None else number.high


def _judged(refuted: Sequence[bool], below_published: Sequence[bool] = ()) -> Outcome:
    """Not reproduced where a statement or every published gain is refuted; else no verdict: upper bounds show nothing.

    Args:
        refuted: of each statement about direction or order, whether a bound contradicts it.
        below_published: of each bound, whether it is below every gain that is published for its iteration.
    """
    too_small = bool(below_published) and all(below_published)
    return Outcome.NOT_REPRODUCED if any(refuted) or too_small else Outcome.NO_VERDICT


def _below(gain: Number, iteration: Iteration, published: Iterable[tuple[Iteration, Number]]) -> bool:
    """Whether an upper bound of a gain is below every one that is published for its iteration."""
    return all(_most(gain) < number.value for other, number in published if other == iteration)


def _cores(items: Iterable[Found]) -> str:
    """What of the CPU the iterations were timed with, in words; rows that do not say had one thread alone."""
    used = {(detail(item.timed, "threads") or 1, detail(item.timed, "processes") or 0) for item in items}
    words = (f"{threads} + {processes}" for threads, processes in sorted(used))
    shared = " (of what processes do side by side, the slowest one's time)" if any(p for _, p in used) else ""
    return f"Timed here with learner threads + environment processes: {', '.join(words)}{shared}."


def _gain_of_small(few: Found, many: Found) -> float:
    """The gain with small mini-batches over that with large ones, at most.

    What is left out is the same data in more transfers, and Adam more often: no less with small mini-batches. The
    more it takes, the nearer do both iterations come to each other.
    """
    rounds = min(len(few.wall_s), len(many.wall_s))
    joined = np.maximum(1, many.joined_s[:rounds] / few.joined_s[:rounds])
    samples = few.wall_s[:rounds] / many.wall_s[:rounds] * joined
    return _most(_number("", samples, "ratio", few, Provenance.SIMULATED))


def over_cpu(frame: pd.DataFrame) -> Finding:
    """PPO Table 2: what the accelerator gains over the CPU alone, and that most with small mini-batches."""
    ours: list[Number] = []
    timed: list[Found] = []
    lower, refuted, shares = [], [], []
    for benchmark in MUJOCO:
        items, published = found(frame, benchmark), published_gains(benchmark, "MNT")
        gains_here = {
            iteration: _gain(benchmark, iteration, item, "CPU") for iteration, item in items.items()
        }
        for iteration, gain in gains_here.items():
            lower.append(_below(gain, iteration, published))
            refuted.append(_most(gain) < 1)
        refuted += [_gain_of_small(items[small], items[large]) < 1 for small, large in _ends(items)]
        ours += gains_here.values()
        timed += items.values()
        shares += [np.median(1 - item.host_s / item.wall_s) for item in items.values()]
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=NEEDS)
    host = 1 - max(shares)
    at_most = f": one that takes no time at all would gain at most {1 / host:.2f}x" if host > 0 else ""
    explanation = (
        "The published CPUs run TensorFlow under OpenAI Baselines or Spinning Up, which no longer install; here it is "
        "this project's own learner, and inferences and training, all that the accelerator can save, are "
        f"{min(shares):.0%} to {max(shares):.0%} of the iterations{at_most}. {BOUNDS} Of {len(refuted)} statements "
        f"about direction and order {sum(refuted)} are refuted; {sum(lower)} of {len(lower)} upper bounds are below "
        f"every published gain, which refutes these where all are. {_cores(timed)}"
    )
    return Finding(_judged(refuted, lower), tuple(ours), explanation)


def platforms(frame: pd.DataFrame) -> Finding:
    """PPO Table 2, MuJoCo: inferences a second on the three platforms, and the accelerator's gain over the GPU."""
    ours: list[Number] = []
    over_gpu: list[Number] = []
    lower: list[bool] = []
    timed: list[Found] = []
    for benchmark in MUJOCO:
        published = published_gains(benchmark, "MNT", "CPU-GPU")
        for iteration, item in found(frame, benchmark).items():
            timed.append(item)
            ours += _rates(benchmark, iteration, item, "CPU")
        for iteration, item in found(frame, benchmark, GPU).items():
            timed.append(item)
            ours.append(_rates(benchmark, iteration, item, "CPU and GPU")[0])
            over_gpu.append(_gain(benchmark, iteration, item, "CPU and GPU"))
            lower.append(_below(over_gpu[-1], iteration, published))
    mine = frame[frame["workload"].isin([BENCHMARKS[benchmark] for benchmark in MUJOCO])]
    stand_ins = [gain.ratio for gain in gains(mine, "sb3")]
    explanation = (
        "Stable-Baselines3's PPO stands in for OpenAI Baselines and Spinning Up."
        if stand_ins
        else "Stable-Baselines3's PPO, which stands in for OpenAI Baselines and Spinning Up, was not run beside it "
        "(`placerl compare hopper-ppo --baselines sb3`)."
    )
    if not ours:
        return Finding(Outcome.NOT_RUN, tuple(stand_ins), explanation, needs=f"{NEEDS}; {NEEDS_CUDA}")
    explanation = f"{explanation} {BOUNDS} {_cores(timed)}"
    if not over_gpu:
        return Finding(Outcome.NOT_RUN, (*ours, *stand_ins), explanation, needs=NEEDS_CUDA)
    outcome = _judged([_most(gain) < 1 for gain in over_gpu], lower)
    return Finding(outcome, (*ours, *over_gpu, *stand_ins), explanation)


def _speed_ups(
    frame: pd.DataFrame, benchmark: str, device: str, words: str
) -> tuple[list[Number], list[Number]]:
    """The accelerator over a device, at most: training, and inferences."""
    training: list[Number] = []
    inference: list[Number] = []
    for iteration, item in found(frame, benchmark, device).items():
        for part, name, made in (("learner", "training", training), ("infer", "inference", inference)):
            samples = item.part_s(part) / item.accelerator_s(name)
            title = f"{_name(benchmark, iteration)}: {name}, FPGA over {words}, at most"
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
    timed: list[Found] = []
    refuted: list[bool] = []
    for benchmark in MUJOCO:
        items = found(frame, benchmark)
        timed += items.values()
        for gain in (each for part in _speed_ups(frame, benchmark, CPU, "CPU") for each in part):
            ours.append(gain)
            refuted.append(_most(gain) < 1)
        for here, there in _slowdowns(benchmark, items):
            ours += [here, there]
            # What is left out takes no less with small mini-batches, but may hide how much longer products take.
            refuted.append(_most(here) < min(1, there.value))
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=NEEDS)
    explanation = (
        f"Of {len(refuted)} statements, that the accelerator is faster at training and at inferences and loses less "
        f"by small mini-batches than the CPU, {sum(refuted)} are refuted. {BOUNDS} The figure's own factors are lost, "
        f"and its bars of a GPU need one. {_cores(timed)}"
    )
    return Finding(_judged(refuted), tuple(ours), explanation)


def pong_times(frame: pd.DataFrame) -> Finding:
    """PPO Fig. 11: on Pong the accelerator trains slightly slower than a GPU and infers faster, for more inferences."""
    cpu = [gain for part in _speed_ups(frame, "Pong", CPU, "CPU") for gain in part]
    training, inference = _speed_ups(frame, "Pong", GPU, "GPU")
    if not cpu:
        return Finding(Outcome.NOT_RUN, needs=f"{NEEDS}; {NEEDS_CUDA}")
    if not training:
        said = "Beside the CPU alone; the statement is about a GPU."
        return Finding(Outcome.NOT_RUN, tuple(cpu), said, needs=NEEDS_CUDA)
    items = found(frame, "Pong", GPU)
    over = [_gain("Pong", *item, "CPU and GPU") for item in items.items()]
    refuted = [_most(gain) < 1 / SLIGHTLY for gain in training]
    refuted += [_most(gain) < 1 for gain in (*inference, *over)]
    said = (
        f"Of {len(refuted)} statements {sum(refuted)} are refuted: training that takes over {SLIGHTLY:g} times as long "
        f"as a GPU's is not slightly slower, and the rest must not be slower. {BOUNDS} {_cores(items.values())}"
    )
    return Finding(_judged(refuted), (*training, *inference, *over, *cpu), said)
