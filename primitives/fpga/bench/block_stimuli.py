"""Stimuli of the exported blocks, for their benches: a function for each kind of block, of the block itself."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.bench.stimuli import Stimuli

ITEMS = 150
GEMM_SIZES = ((0, 2, 1, 1, 3), (1, 1, 2, 1, 4), (2, 1, 1, 2, 5))  # dataflow, blocks of a, b and c, vectors


def random_inputs(design: Any) -> Stimuli:
    """Give every input a random value in every cycle, and every input stream random items."""
    return Stimuli()


def no_inputs(design: Any) -> Stimuli:
    """Let a block without inputs run."""
    return Stimuli()


def registers_alone(design: Any) -> Stimuli:
    """Record nothing of a large design, whose bench reads and writes its registers."""
    return Stimuli(cycles=0)


def replay_requests(design: Any) -> Stimuli:
    """Insert priorities at first, then update, get and sample at random, in each lane of a replay pipeline.

    Updates and reads are of the first leaves, also of those that are not in use.
    """
    layout, rng = design.layout, np.random.default_rng(0)
    banked = hasattr(layout, "bank")
    bank = layout.bank if banked else layout
    lanes = [f"requests_{lane}" for lane in range(layout.banks)] if banked else ["requests"]
    streams = {}
    for lane in lanes:
        leaves = rng.integers(0, min(bank.fanout**bank.levels, 64), ITEMS)
        paths = bank.path_of(leaves)
        if banked:
            paths = paths | rng.integers(0, layout.banks, ITEMS) << bank.path_bits
        operations = np.where(np.arange(ITEMS) < ITEMS // 3, 3, rng.integers(0, 4, ITEMS))
        priorities = rng.integers(0, 1 << min(16, bank.leaf_bits), ITEMS)
        prefixes = rng.integers(0, 1 << min(20, bank.leaf_bits + 3), ITEMS)
        streams[lane] = {
            "operation": operations,
            "tag": rng.integers(0, 1 << min(3, layout.tag_bits), ITEMS),
            "path": paths,
            "value": np.where(operations == 0, prefixes, priorities),
        }
        if design.remembers:
            streams[lane]["remembered"] = (operations == 2) & (rng.random(ITEMS) < 0.3)
    last = int(bank.path_of(np.array([bank.leaves - 1]))[0])
    return Stimuli(streams=streams, plain={"last_leaf": [last]})


def gemm_products(design: Any) -> Stimuli:
    """Multiply matrices of small sizes in each dataflow; the operands are random words."""
    dataflow, a_blocks, b_blocks, c_blocks, vectors = np.array(GEMM_SIZES).T
    command = {
        "dataflow": dataflow,
        "a_blocks": a_blocks,
        "b_blocks": b_blocks,
        "c_blocks": c_blocks,
        "vectors": np.where(dataflow == 0, vectors, design.side + vectors),
        "halves": np.zeros(len(dataflow), int),
    }
    return Stimuli(streams={"command": command}, plain={"ready": [1]}, cycles=60 + 24 * design.side)


def convolutions(design: Any) -> Stimuli:
    """Give the commands of three convolutions."""
    from placerl.primitives.fpga.convolution.layout_transform import Convolution

    commands = [
        Convolution(*sizes).command()
        for sizes in ((2, 4, 4, (2, 2), 1, 1, 2), (1, 5, 6, (3, 3), 2, 0, 1), (3, 3, 3, (2, 3), 1, 1, 1))
    ]
    columns = {name: np.array([command[name] for command in commands]) for name in commands[0]}
    return Stimuli(streams={"commands": columns})


def float_words(design: Any) -> Stimuli:
    """Give a stream unit random float32 numbers, positive and negative."""
    count = design.lanes * max(1, design.program.input_count)
    return Stimuli(streams={"inputs": _floats((ITEMS, count))})


def groups(design: Any) -> Stimuli:
    """Give a reduction unit groups of one to four words of float32 numbers."""
    rng = np.random.default_rng(0)
    items = {
        "numbers": _floats((ITEMS, design.lanes)),
        "count": rng.integers(1, design.lanes + 1, ITEMS),
        "last": rng.random(ITEMS) < 0.4,
        "scale": np.zeros(ITEMS, int),
    }
    return Stimuli(streams={"items": items})


def training(design: Any) -> Stimuli:
    """Load the weights of a learner pipeline, then train on two batches."""
    rng = np.random.default_rng(0)
    streams: dict[str, Any] = {}
    words = [layer.words for layer in design.layers]
    for number, layer in enumerate(design.layers):
        streams[f"load_{number}"] = {
            "address": np.arange(layer.update_words),
            "weights": _floats((layer.update_words, layer.updates)),
        }
    for number in range(design.pipelines):
        samples = 2 * design.samples
        streams[f"samples_{number}"] = {
            "x": rng.integers(-(1 << 20), 1 << 20, (samples, design.layers[0].inputs)),
            "y": rng.integers(-(1 << 20), 1 << 20, (samples, design.layers[-1].outputs)),
        }
    loaded = 2 * max(words) + 20
    one = int(np.float32(1e-2).view(np.uint32))
    starts = {f"samples_{number}": loaded for number in range(design.pipelines)}
    return Stimuli(streams, starts, {"rate": [one], "root": [one]}, cycles=loaded + 60 * design.samples)


def _floats(shape: tuple[int, int]) -> NDArray[np.uint32]:
    return np.random.default_rng(0).normal(0, 2, shape).astype(np.float32).view(np.uint32)
