"""The notes on the papers: statements that no experiment can decide, and the numbers that follow from the published."""

from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path

import pytest

from placerl.harness import papers, workloads
from placerl.harness.mapping.problem import problem_of
from placerl.harness.papers import discovery
from placerl.harness.papers.notes import Note, notes
from placerl.harness.papers.number import from_cell, from_text
from placerl.harness.papers.ppo.table_2_iterations import table_columns
from placerl.harness.papers.published import table
from placerl.primitives.algorithms.networks import MLP, NatureCNN, forward_macs, parameter_count
from placerl.primitives.fpga.cycles import fixar_dataflows
from placerl.primitives.fpga.cycles.networks import FIX_BENCHMARKS

ROBOTS = [f"{robot}, {lib}" for lib in ("Spinning Up", "Baselines") for robot in ("Hopper", "Humanoid")]
PONG = "Pong, Baselines"
BENCHMARKS = [*ROBOTS, PONG]
PLATFORMS = ("CPU", "CPU-GPU", "CPU-FPGA")
BARS = [
    f"{name}, B = {size}" for name in ("HalfCheetah", "Hopper", "Swimmer") for size in (64, 128, 256, 512)
]
Numbers = tuple[float, ...]


def text(*keys: str) -> Numbers:
    return tuple(number.value for number in from_text(*keys))


def cell(name: str, row: str, column: str) -> float:
    return from_cell(name, row, column).value


def perceptron(state: int, action: int, hidden: int) -> Numbers:
    """Multiply-accumulates of MAP's actor and critic, and parameters of a critic with one input more."""
    actor, critic, wider = (
        MLP((inputs, hidden, hidden, outputs))
        for inputs, outputs in ((state, action), (state + action, 1), (state + action + 1, 1))
    )
    return forward_macs(actor), forward_macs(critic), parameter_count(wider)


def pong_macs() -> Numbers:
    cited = NatureCNN(head=6, convolutions=((16, 8, 4), (32, 4, 2)), hidden=256)
    return forward_macs(cited), 2 * forward_macs(NatureCNN(head=6))


def nodes(fanout: int) -> float:
    (leaves,) = text("MAP.replay_capacity")
    return leaves + (leaves - 1) / (fanout - 1)


def of_device(name: str, row: str, used: str, share: str) -> float:
    """The total number of a resource that a row's number and percentage imply."""
    return 100 * cell(name, row, used) / cell(name, row, share)


def storage() -> Numbers:
    """Algorithm 3's words that cross links, with replay management and actors on the CPU and the learner on the GPU."""
    (actors,) = text("MAP.actors")

    def on_gpu(size: int, words: int) -> float:
        return size + actors * words

    def least(words: int) -> int:
        return next(size for size in range(1, 1000) if on_gpu(size, words) < size * words)

    pong = problem_of(workloads.load("pong-dqn"), 256).item_words
    assert all(least(words) <= least(2) for words in range(2, 1000))
    return least(2), least(pong), on_gpu(256, pong), 256 * pong


def three_devices() -> Numbers:
    """How many optimal mappings have a GPU and an FPGA (actors are on the CPU), and the gain nearest to 11."""
    (stated,) = text("MAP.three_device_speedup")
    cells = table("map_table_5").cells
    optimal = [cell.printed for cell in cells if cell.row == "optimal mapping"]
    gains = [cell.value for cell in cells if cell.value is not None]
    return sum({"G", "F"} <= set(one) for one in optimal), min(gains, key=lambda gain: abs(gain - stated))


def in_proportion() -> Numbers:
    """Shares of MAP's device: of twice the sub-trees and of one pipeline more, next to those of one and two dies."""
    replay, learner = (
        cell("map_table_6", row, f"{name} share")
        for row, name in (("RMM (S=32)", "DSP"), ("DDPG learner", "LUT"))
    )
    pipelines, dies = cell("map_table_6", "hardware parameters", "data parallel factor (DP)"), 3
    return 2 * replay, 100 / dies, learner * (pipelines + 1) / pipelines, 200 / dies


def dataflows() -> Numbers:
    """Rate, utilisation and KB of activations of two readings of FIX's dataflow, HalfCheetah at its smallest batch."""
    (state, action), batch = FIX_BENCHMARKS["HalfCheetah"], 64
    return tuple(
        value
        for flow in (fixar_dataflows.DATAFLOWS[0], fixar_dataflows.DATAFLOWS[-1])
        for value in (
            fixar_dataflows.samples_per_s(flow, state, action, batch),
            100
            * fixar_dataflows.multiply_adds_per_element(flow, state, action, batch)
            / (2 if flow.halves else 1),
            fixar_dataflows.activation_bytes(flow, state, batch) / 1000,
        )
    )


def watts(row: str) -> float:
    """MAP's power over RLlib's."""
    return cell("map_table_7", row, "MAP power") / cell("map_table_7", row, "RLlib power")


def rate(row: str, system: str = "MAP") -> float:
    """Gradient steps per second: power times efficiency."""
    return cell("map_table_7", row, f"{system} power") * cell("map_table_7", row, f"{system} efficiency")


def over_rllib(row: str) -> Numbers:
    return (rate(row) / rate(row, "RLlib"),)


def columns(benchmark: str, letter: str) -> list[str]:
    rows = table("ppo_table_2").cells
    return [
        one.column for one in rows if one.row == f"{benchmark}, CPU" and one.column.startswith(f"{letter}=")
    ]


def ips(benchmark: str, platform: str, column: str) -> float:
    return cell("ppo_table_2", f"{benchmark}, {platform}", column)


def gains(base: str, letters: str, benchmarks: list[str]) -> list[float]:
    """Gains of CPU-FPGA in the columns of some letters, benchmark by benchmark."""
    places = [(b, c) for b in benchmarks for letter in letters for c in columns(b, letter)]
    return [ips(b, "CPU-FPGA", column) / ips(b, base, column) for b, column in places]


def twice() -> Numbers:
    """Of throughputs of one iteration that are printed in two columns, how many differ by more than 5%, and all."""
    ratios = []
    for benchmark in BENCHMARKS:
        iterations = table_columns(*benchmark.split(", "))
        for (first, one), (second, other) in product(iterations.items(), repeat=2):
            if one == other and first < second:
                ratios += [ips(benchmark, p, second) / ips(benchmark, p, first) for p in PLATFORMS]
    return sum(not 0.95 <= ratio <= 1.05 for ratio in ratios), len(ratios)


def hopper_s_memory(minibatch: int) -> float:
    """Mbit of parameters, inputs, and z, a and delta of each layer, of Hopper's two networks."""
    inputs, hidden, outputs = map(int, text("PPO.hopper_inputs", "PPO.hopper_hidden", "PPO.hopper_outputs"))
    of_heads = (
        parameter_count(MLP((inputs, hidden, hidden, head))) + 3 * minibatch * (2 * hidden + head)
        for head in (outputs, 1)
    )
    return 32e-6 * (minibatch * inputs + sum(of_heads))


def robots() -> Numbers:
    """How often Humanoid's throughput, and its gain over CPU-GPU, is at least Hopper's."""
    pairs = [
        [[ips(f"{robot}, {lib}", p, c) for p in PLATFORMS] for robot in ("Hopper", "Humanoid")]
        for lib in ("Spinning Up", "Baselines")
        for letter in "MNT"
        for c in columns(f"Hopper, {lib}", letter)
    ]
    rates = sum(h <= u for hopper, humanoid in pairs for h, u in zip(hopper, humanoid, strict=True))
    return rates, sum(h[2] / h[1] <= u[2] / u[1] for h, u in pairs)


def minibatches() -> Numbers:
    """Losses with the smallest mini-batch: how many above 10% on CPU-FPGA, the least elsewhere, the most there."""
    lost = {
        platform: [
            1 - ips(b, platform, columns(b, "M")[0]) / ips(b, platform, columns(b, "M")[-1])
            for b in BENCHMARKS
        ]
        for platform in PLATFORMS
    }
    fpga = lost["CPU-FPGA"]
    return sum(one > 0.1 for one in fpga), 100 * min(lost["CPU"] + lost["CPU-GPU"]), 100 * max(fpga)


def agents() -> Numbers:
    steps = [
        ips(b, p, more) / ips(b, p, fewer)
        for b, p in product(BENCHMARKS, PLATFORMS)
        for fewer, more in pairwise(columns(b, "N"))
    ]
    return min(steps), max(steps), sum(step > 2 for step in steps)


def spread_over_t(benchmark: str, platform: str) -> float:
    rates = [ips(benchmark, platform, column) for column in columns(benchmark, "T")]
    return max(rates) / min(rates)


def pong_speedups() -> Numbers:
    printed = [
        one.value
        for one in table("ppo_table_2").cells
        if one.row.startswith("Pong") and "speed-up" in one.column
    ]
    return min(one for one in printed if one is not None), gains("CPU", "M", [PONG])[0]


def bars(name: str) -> list[float]:
    return [cell("fix_figure_8", row, name) for row in BARS]


def normalised() -> Numbers:
    own, fixar = {}, cell("fix_table_2", "network size", "FIXAR")
    for column in ("ASPLOS'19 [19]", "FCCM'20 [20]", "FIXAR"):
        size, peak = (cell("fix_table_2", row, column) for row in ("network size", "peak performance"))
        own[column] = peak * size / fixar
        assert own[column] == pytest.approx(
            cell("fix_table_2", "peak performance normalised to FIXAR", column), abs=1
        )
    return tuple(own.values())


def efficiency() -> Numbers:
    speedup, card, gpu, rate = text(
        "FIX.accelerator_speedup", "FIX.accelerator_power", "FIX.gpu_power", "FIX.accelerator_ips"
    )
    return speedup * gpu / card, rate / card


def fixar_sizes() -> Numbers:
    sizes = (
        ("FIX.halfcheetah_state", "FIX.hidden_1", "FIX.hidden_2", "FIX.halfcheetah_action"),
        ("PPO.humanoid_inputs", "PPO.humanoid_hidden_1", "PPO.humanoid_hidden_2", "PPO.humanoid_outputs"),
    )
    return tuple(4e-3 * forward_macs(MLP(tuple(map(int, text(*keys))))) for keys in sizes)


def hopper_s_actions() -> Numbers:
    pytest.importorskip("mujoco")
    import gymnasium

    environment = gymnasium.make("Hopper-v5", disable_env_checker=True)
    shape = environment.action_space.shape
    environment.close()
    assert shape is not None
    return shape


RECOMPUTED: dict[str, Callable[[], Numbers]] = {
    "MAP-T3-CartPole": lambda: perceptron(4, 1, 8),
    "MAP-T3-Hopper": lambda: perceptron(11, 3, 256),
    "MAP-T3-Pong": pong_macs,
    "MAP-IV-C4": lambda: (nodes(2),),
    "MAP-IV-C4-memory": lambda: (
        4e-6 * nodes(2),
        8e6 * cell("map_table_6", "RMM (S=32)", "SRAM") / nodes(2),
    ),
    "MAP-T5-storage": storage,
    "MAP-T5-three-devices": three_devices,
    "MAP-T6": lambda: tuple(
        of_device("map_table_6", row, "LUT", "LUT share")
        for row in ("RMM (S=32)", "DQN learner", "DDPG learner")
    ),
    "MAP-T6-cells": lambda: (),
    "MAP-T6-parameters": in_proportion,
    "MAP-F14-Hopper": lambda: over_rllib("Hopper, DDPG"),
    "MAP-F14-Pong": lambda: over_rllib("Pong, DQN"),
    "MAP-T7-rates": lambda: tuple(map(rate, ("Pong, DQN", "Hopper, DDPG", "CartPole, DDPG"))),
    "MAP-T7": lambda: (
        *map(watts, ("Pong, DQN", "Hopper, DDPG", "CartPole, DDPG")),
        cell("map_table_7", "CartPole, DDPG", "MAP efficiency")
        / cell("map_table_7", "CartPole, DDPG", "RLlib efficiency"),
    ),
    "PAL-VI-H": lambda: (4e-3 * nodes(64),),
    "PAL-F9-fanout-times": lambda: text(
        *(f"PAL.repository_best_fanout_{size}" for size in ("1k", "10k", "100k"))
    ),
    "PPO-T1": lambda: tuple(
        of_device("ppo_table_1", row, f"BRAM{size}", f"BRAM share{size}")
        for row, size in (("Humanoid", ", M=512"), ("Hopper", ", M=512"), ("Pong", ""))
    ),
    "PPO-T1-cells": lambda: (),
    "PPO-T1-smallest": lambda: tuple(
        cell("ppo_table_1", "Humanoid", f"BRAM, M={size}") / cell("ppo_table_1", "Hopper", f"BRAM, M={size}")
        for size in (64, 128)
    ),
    "PPO-5.2-clock": lambda: (),
    "PPO-T2-twice": twice,
    "PPO-T2-Pong": pong_speedups,
    "PPO-T2-bases": lambda: (max(gains("CPU", "MN", ROBOTS)), max(gains("CPU-GPU", "MN", ROBOTS))),
    "PPO-T2-trajectory": lambda: (
        min(gains("CPU", "T", BENCHMARKS)),
        max(gains("CPU", "T", BENCHMARKS)),
        min(gains("CPU-GPU", "T", BENCHMARKS)),
    ),
    "PPO-T2-robots": robots,
    "PPO-T2-minibatch": minibatches,
    "PPO-T2-agents": agents,
    "PPO-T2-steps": lambda: (max(spread_over_t(b, p) for b, p in product(BENCHMARKS, PLATFORMS)),),
    "PPO-2.4-memory": lambda: (hopper_s_memory(64), hopper_s_memory(512)),
    "FIX-F8-range": lambda: (
        sum(bars("FIXAR")) / sum(bars("CPU-GPU")),
        *(pick(a / b for a, b in zip(bars("FIXAR"), bars("CPU-GPU"), strict=True)) for pick in (min, max)),
    ),
    "FIX-T2-peak": lambda: (
        max(bars("FIXAR")),
        min(cell("fix_figure_10", row, "accelerator, throughput") for row in BARS),
    ),
    "FIX-T2-size": fixar_sizes,
    "FIX-T2-normalised": normalised,
    "FIX-F10-efficiency": efficiency,
    "FIX-V-B": dataflows,
    "FIX-T1-adam": lambda: (),
    "FIX-VI-A-clock": lambda: (),
    "FIX-VI-B": hopper_s_actions,
}
"""The computed numbers of each note, from the published ones."""


@pytest.mark.parametrize("note", notes(), ids=lambda note: note.key)
def test_the_numbers_of_a_note_follow_from_the_published_ones(note: Note) -> None:
    assert list(note.computed.values()) == pytest.approx(RECOMPUTED[note.key](), rel=1e-3)


def test_every_note_is_whole_and_no_claim() -> None:
    every = notes()
    keys = [note.key for note in every]
    assert len(set(keys)) == len(keys)
    assert set(keys) == set(RECOMPUTED)
    assert not set(keys) & {claim.key for claim in papers.claims()}
    order = list(papers.titles())
    assert [key.partition("-")[0] for key in keys] == sorted(
        (key.partition("-")[0] for key in keys), key=order.index
    )
    for note in every:
        assert note.place, note.key
        assert note.sentence.endswith("."), note.key
        assert ". " not in note.sentence.replace("et al. ", "").replace("Fig. ", ""), (
            f"{note.key}: one sentence"
        )


def test_a_note_says_where_and_shows_its_numbers() -> None:
    note = Note("PAL-VI-H", "VI-H", "Said.", {"tree, KB": 4063.49, "nodes": 1999999})
    assert note.source == "PAL VI-H"
    assert note.numbers == "tree, KB: 4,063.49; nodes: 1,999,999"
    assert Note("PAL-VI-H", "VI-H", "Said.").numbers == "–"


def test_a_field_that_is_misspelt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.toml").write_text('[[notes]]\nkey = "X-1"\nplace = "1"\nsentense = "Said."\n')

    class Package:
        __path__ = (str(tmp_path),)

    monkeypatch.setattr(discovery, "packages", lambda: [Package])
    with pytest.raises(TypeError, match="sentense"):
        notes()
