"""Checks PPO's statements about its own Table 2 by arithmetic on the printed numbers, without measurements."""

from itertools import pairwise, product

import pandas as pd

from harness.papers import published
from harness.papers.base import Finding, among_themselves
from harness.papers.number import Number, from_cell, from_text, ratio
from harness.papers.ppo.table_2_iterations import table_columns

TABLE = "ppo_table_2"
NEEDS = "PPO's iterations on CPU, CPU-GPU and CPU-FPGA with host, transfers and accelerator together"
BENCHMARKS = tuple(
    f"{robot}, {library}" for library in ("Spinning Up", "Baselines") for robot in ("Hopper", "Humanoid")
)
PONG = "Pong, Baselines"
PLATFORMS = ("CPU", "CPU-GPU", "CPU-FPGA")
ROUGHLY = 1.2
"""Largest ratio of throughputs that count as about the same."""
SINGLE_RUNS = "The paper states neither how many runs a throughput is made from nor how far they lie apart."


def _columns(benchmark: str, letter: str) -> list[str]:
    """Return the columns M=..., N=... or T=... in which a benchmark has a throughput."""
    cells = published.table(TABLE).cells
    return [c.column for c in cells if c.row == f"{benchmark}, CPU" and c.column.startswith(f"{letter}=")]


def _gain(benchmark: str, column: str, base: str) -> Number:
    ours, theirs = (from_cell(TABLE, f"{benchmark}, {platform}", column) for platform in ("CPU-FPGA", base))
    return ratio(f"{benchmark}, {column}: CPU-FPGA over {base}", ours, theirs)


def _range(gains: list[Number]) -> tuple[Number, Number]:
    return min(gains, key=lambda n: n.value), max(gains, key=lambda n: n.value)


def _prints(value: float, printed: Number, tolerance: float = 0.04) -> bool:
    """Whether a ratio of printed numbers, of two or three digits each, equals a printed ratio."""
    return abs(value / printed.value - 1) <= tolerance


def trajectory(_: pd.DataFrame) -> Finding:
    """Check PPO 5.3.1: the gains are in the stated range while T, the length of the trajectories, varies.

    The gains are those of CPU-FPGA over CPU and over CPU-GPU in the columns T of Table 2.
    """
    low, high = from_text("PPO.trajectory_speedup_low", "PPO.trajectory_speedup_high")
    places = [(b, column) for b in (*BENCHMARKS, PONG) for column in _columns(b, "T")]
    over_cpu, over_gpu = (_range([_gain(*place, base) for place in places]) for base in ("CPU", "CPU-GPU"))
    ours = (*over_cpu, *over_gpu)
    least, most = _range([*ours])
    agrees = _prints(least.value, low) and _prints(most.value, high)
    alone = _prints(over_cpu[0].value, low) and _prints(over_cpu[1].value, high)
    said = (
        "Both ends are gains over the CPU alone; over CPU-GPU, the other baseline that the sentence covers, the gain "
        "goes down further."
        if alone and not agrees
        else f"Over both baselines the gains are {least.value:.2f}x to {most.value:.2f}x."
    )
    could_be = "The paper leaves these gains out of its table for lack of space, and does not say over which baseline."
    return among_themselves(agrees, ours, said, needs=NEEDS, could_be=could_be)


def over_each_base(_: pd.DataFrame) -> Finding:
    """Check PPO 1: the stated largest gains of robotics over CPU and over CPU-GPU follow from Table 2."""
    over_cpu, over_gpu = from_text("PPO.speedup_over_cpu_high", "PPO.speedup_over_gpu_high")
    places = [(b, column) for b in BENCHMARKS for letter in "MN" for column in _columns(b, letter)]
    ours = tuple(_range([_gain(*place, base) for place in places])[1] for base in ("CPU", "CPU-GPU"))
    agrees = _prints(ours[0].value, over_cpu) and _prints(ours[1].value, over_gpu)
    said = "Both from columns M and N of Table 2."
    could_be = "The paper does not say from which columns they are."
    return among_themselves(agrees, ours, said, needs=NEEDS, could_be=could_be)


def hopper_over_humanoid(_: pd.DataFrame) -> Finding:
    """Check PPO 5.3.1: on every platform Hopper has more inferences per second than Humanoid.

    The gain of CPU-FPGA over CPU-GPU also has to be larger for Hopper.
    """
    rates, gains = [], []
    for library in ("Spinning Up", "Baselines"):
        for column in (c for letter in "MNT" for c in _columns(f"Hopper, {library}", letter)):
            hopper, humanoid = f"Hopper, {library}", f"Humanoid, {library}"
            rates += [
                ratio(
                    f"{library}, {platform}, {column}: Hopper over Humanoid",
                    from_cell(TABLE, f"{hopper}, {platform}", column),
                    from_cell(TABLE, f"{humanoid}, {platform}", column),
                )
                for platform in PLATFORMS
            ]
            gains.append(
                ratio(
                    f"{library}, {column}: Hopper's gain over CPU-GPU over Humanoid's",
                    _gain(hopper, column, "CPU-GPU"),
                    _gain(humanoid, column, "CPU-GPU"),
                )
            )
    fewer, less = ([n for n in numbers if n.value <= 1] for numbers in (rates, gains))
    said = (
        f"Of {len(rates)} pairs of throughputs {len(fewer)} are not higher for Hopper; of {len(gains)} pairs of gains "
        f"{len(less)} are not."
    )
    numbers = (*_range(rates), *_range(gains))
    could_be = f"The larger gain may be meant of the whole, not of every column. {SINGLE_RUNS}"
    return among_themselves(not fewer and not less, numbers, said, needs=NEEDS, could_be=could_be)


def minibatches(_: pd.DataFrame) -> Finding:
    """Check PPO 5.3.1: with smaller mini-batches throughput falls on CPU and CPU-GPU, but not on CPU-FPGA."""
    kept: dict[str, list[Number]] = {platform: [] for platform in PLATFORMS}
    for benchmark in (*BENCHMARKS, PONG):
        columns = _columns(benchmark, "M")
        smallest, largest = columns[0], columns[-1]
        for platform, numbers in kept.items():
            row = f"{benchmark}, {platform}"
            name = f"{row}: {smallest} over {largest}"
            numbers.append(ratio(name, from_cell(TABLE, row, smallest), from_cell(TABLE, row, largest)))
    falls = all(n.value < 0.9 for platform in ("CPU", "CPU-GPU") for n in kept[platform])
    fallen = [n for n in kept["CPU-FPGA"] if n.value < 0.9]
    said = (
        f"On CPU and CPU-GPU every benchmark loses more than 10%. On CPU-FPGA {len(fallen)} of "
        f"{len(kept['CPU-FPGA'])} do too, though less."
        if falls
        else "Not every benchmark loses 10% on CPU and CPU-GPU."
    )
    found = tuple(n for numbers in kept.values() for n in numbers)
    others = max(n.value for platform in ("CPU", "CPU-GPU") for n in kept[platform])
    could_be = (
        "The paper says that the accelerator does not suffer such slowdowns, and does not say what size it means: "
        f"these falls are smaller than every fall of the others. {SINGLE_RUNS}"
        if all(n.value > others for n in fallen)
        else ""
    )
    return among_themselves(falls and not fallen, found, said, needs=NEEDS, could_be=could_be)


def printed_twice(_: pd.DataFrame) -> Finding:
    """Check PPO Table 2: an iteration that is printed in two columns has equal throughputs in both.

    In both columns it has the same number of agents N, trajectory length T, mini-batch M and number of epochs K.
    """
    twice = []
    for benchmark in (*BENCHMARKS, PONG):
        columns = table_columns(*benchmark.split(", "))
        for first, iteration in columns.items():
            again = [name for name, other in columns.items() if other == iteration and name > first]
            for second, platform in product(again, PLATFORMS):
                row = f"{benchmark}, {platform}"
                numbers = (from_cell(TABLE, row, column) for column in (second, first))
                twice.append(ratio(f"{row}: {second} over {first}", *numbers))
    apart = [number for number in twice if not 0.95 <= number.value <= 1.05]
    said = (
        f"Of {len(twice)} throughputs of one and the same N, T, M and K that are printed twice, {len(apart)} differ by "
        "more than 5%."
    )
    could_be = f"They may be two runs each. {SINGLE_RUNS}"
    return among_themselves(not apart, tuple(twice), said, needs=NEEDS, could_be=could_be)


def more_agents(_: pd.DataFrame) -> Finding:
    """Check PPO 5.3.1: more agents give more inferences per second on every platform.

    The gain of CPU-FPGA over CPU-GPU has to be the largest with 16 agents.
    """
    steps, best = [], []
    for benchmark in (*BENCHMARKS, PONG):
        columns = _columns(benchmark, "N")
        for platform in PLATFORMS:
            row = f"{benchmark}, {platform}"
            steps += [_step(row, fewer, more) for fewer, more in pairwise(columns)]
        gains = [_gain(benchmark, column, "CPU-GPU") for column in columns]
        best.append(gains[-1].value == max(gain.value for gain in gains))
    falls = [step for step in steps if step.value <= 1]
    said = (
        f"Of {len(steps)} steps to more agents {len(falls)} do not raise the throughput; the gain over CPU-GPU is the "
        f"largest with 16 agents for {sum(best)} of {len(best)} benchmarks."
    )
    shown = tuple(dict.fromkeys((*_range(steps), *falls)))  # the lowest may itself be a fall
    could_be = f"A fall of a few percent may be rounding: the table prints two or three digits. {SINGLE_RUNS}"
    return among_themselves(not falls and all(best), shown, said, needs=NEEDS, could_be=could_be)


def _step(row: str, fewer: str, more: str) -> Number:
    """Return throughput with more agents (`N=16`) over that with fewer; their number is its upper limit."""
    agents = [int(column.partition("=")[2]) for column in (more, fewer)]
    numbers = (from_cell(TABLE, row, column) for column in (more, fewer))
    return ratio(f"{row}: {more} over {fewer}", *numbers, at_most=agents[0] / agents[1])


def longer_trajectories(_: pd.DataFrame) -> Finding:
    """Check PPO 5.3.1: throughput is about the same for every length T of the trajectories."""
    spreads = []
    for benchmark, platform in product((*BENCHMARKS, PONG), PLATFORMS):
        row = f"{benchmark}, {platform}"
        cells = sorted((from_cell(TABLE, row, c) for c in _columns(benchmark, "T")), key=lambda n: n.value)
        spreads.append(ratio(f"{row}: most over least", cells[-1], cells[0]))
    within = sum(spread.value <= ROUGHLY for spread in spreads)
    said = f"Within {ROUGHLY - 1:.0%} of each other on {within} of {len(spreads)} benchmarks and platforms."
    could_be = f'The paper does not say how much "roughly the same" is. {SINGLE_RUNS}'
    agree = within == len(spreads)
    return among_themselves(agree, _range(spreads), said, needs=NEEDS, could_be=could_be)
