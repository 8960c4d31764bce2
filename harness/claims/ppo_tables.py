"""Checks of PPO's statements about its own Table 2 and networks: arithmetic over what it prints, without a run."""

import pandas as pd

from harness.claims import published
from harness.claims.base import Finding, Outcome
from harness.claims.number import Number, from_cell, from_text, ratio
from harness.provenance import Provenance

TABLE = "ppo_table_2"
BENCHMARKS = tuple(
    f"{robot}, {library}" for library in ("Spinning Up", "Baselines") for robot in ("Hopper", "Humanoid")
)
PONG = "Pong, Baselines"
PLATFORMS = ("CPU", "CPU-GPU", "CPU-FPGA")


def _columns(benchmark: str, letter: str) -> list[str]:
    """The columns M=..., N=... or T=... in which a benchmark has a throughput."""
    cells = published.table(TABLE).cells
    return [c.column for c in cells if c.row == f"{benchmark}, CPU" and c.column.startswith(f"{letter}=")]


def _gain(benchmark: str, column: str, base: str) -> Number:
    ours, theirs = (from_cell(TABLE, f"{benchmark}, {platform}", column) for platform in ("CPU-FPGA", base))
    return ratio(f"{benchmark}, {column}: CPU-FPGA over {base}", ours, theirs)


def _range(gains: list[Number]) -> tuple[Number, Number]:
    return min(gains, key=lambda n: n.value), max(gains, key=lambda n: n.value)


def _prints(value: float, printed: Number, tolerance: float = 0.04) -> bool:
    """Whether a ratio of the table's numbers, of two or three digits each, is a printed one."""
    return abs(value / printed.value - 1) <= tolerance


def trajectory(_: pd.DataFrame) -> Finding:
    """PPO 5.3.1: the range of gains over the columns T; over the CPU, and over CPU-GPU."""
    low, high = from_text("PPO.trajectory_speedup_low", "PPO.trajectory_speedup_high")
    places = [(b, column) for b in (*BENCHMARKS, PONG) for column in _columns(b, "T")]
    over_cpu, over_gpu = (_range([_gain(*place, base) for place in places]) for base in ("CPU", "CPU-GPU"))
    ours = (*over_cpu, *over_gpu)
    agrees = _prints(over_cpu[0].value, low) and _prints(over_cpu[1].value, high)
    said = (
        "Both ends are gains over the CPU alone, the low one Pong's; over CPU-GPU, the other baseline that the "
        "sentence covers, the gain goes down further."
    )
    return Finding(Outcome.REPRODUCED if agrees else Outcome.INCONSISTENT, ours, said)


def over_each_base(_: pd.DataFrame) -> Finding:
    """PPO 1: the largest gains over CPU and over CPU-GPU of robotics."""
    over_cpu, over_gpu = from_text("PPO.speedup_over_cpu_high", "PPO.speedup_over_gpu_high")
    places = [(b, column) for b in BENCHMARKS for letter in "MN" for column in _columns(b, letter)]
    ours = tuple(_range([_gain(*place, base) for place in places])[1] for base in ("CPU", "CPU-GPU"))
    agrees = _prints(ours[0].value, over_cpu) and _prints(ours[1].value, over_gpu)
    outcome = Outcome.REPRODUCED if agrees else Outcome.INCONSISTENT
    return Finding(outcome, ours, "Both from columns M and N of Table 2.")


def hopper_over_humanoid(_: pd.DataFrame) -> Finding:
    """PPO 5.3.1: on every platform Hopper has more inferences a second than Humanoid, and the larger gain."""
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
    outcome = Outcome.INCONSISTENT if fewer or less else Outcome.REPRODUCED
    return Finding(outcome, (*_range(rates), *_range(gains)), said)


def minibatches(_: pd.DataFrame) -> Finding:
    """PPO 5.3.1: with smaller mini-batches throughput falls on CPU and CPU-GPU, and not on CPU-FPGA."""
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
        f"{len(kept['CPU-FPGA'])} do too, though less: both with Spinning Up."
        if falls
        else "Not every benchmark loses 10% on CPU and CPU-GPU."
    )
    outcome = Outcome.REPRODUCED if falls and not fallen else Outcome.INCONSISTENT
    return Finding(outcome, tuple(n for numbers in kept.values() for n in numbers), said)


def _megabits(parameters: int) -> float:
    return 32 * parameters / 1e6


def memory(_: pd.DataFrame) -> Finding:
    """PPO 3.1: memory of the largest MLP of robotics and of the CNN policy, in 32-bit parameters."""
    from primitives.algorithms.networks import MLP, NatureCNN, parameter_count

    mlp, cnn = from_text("PPO.largest_mlp", "PPO.cnn_policy")
    sizes = from_text(
        "PPO.humanoid_inputs", "PPO.humanoid_hidden_1", "PPO.humanoid_hidden_2", "PPO.humanoid_outputs"
    )
    humanoid = MLP(tuple(int(n.value) for n in sizes))
    source = "parameters x 32 bit, primitives.algorithms.networks"
    ours = (
        Number("Humanoid's MLP", _megabits(parameter_count(humanoid)), "Mbit", Provenance.MODELLED, source),
        Number(
            "CNN of Pong", _megabits(parameter_count(NatureCNN(head=6))), "Mbit", Provenance.MODELLED, source
        ),
    )
    agrees = _prints(ours[0].value, mlp) and _prints(ours[1].value, cnn)
    return Finding(
        Outcome.REPRODUCED if agrees else Outcome.NOT_REPRODUCED,
        ours,
        "Weights and biases of one network each.",
    )


def shared_network(_: pd.DataFrame) -> Finding:
    """PPO 5.3.1: how much less arithmetic policy and value network ask for that share all but their heads."""
    from primitives.algorithms.networks import MLP, forward_macs

    inputs, hidden, outputs = (
        int(n.value) for n in from_text("PPO.hopper_inputs", "PPO.hopper_hidden", "PPO.hopper_outputs")
    )
    body = (inputs, hidden, hidden)
    separate = sum(forward_macs(MLP((*body, head))) for head in (outputs, 1))
    shared = forward_macs(MLP((*body, outputs + 1)))
    source = "multiply-accumulates of the forward passes, primitives.algorithms.networks"
    ours = Number(
        "Hopper: separate networks over shared", separate / shared, "ratio", Provenance.MODELLED, source
    )
    agrees = _prints(ours.value, from_text("PPO.shared_network_gain")[0], 0.1)
    return Finding(Outcome.REPRODUCED if agrees else Outcome.NOT_REPRODUCED, (ours,), "Arithmetic, not time.")
