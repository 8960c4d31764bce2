"""Cycles of one batch on the learner pipeline: MAP's formula (VI-A2), and `fpga.learner_pipeline`.

Where the two differ (`pipeline_cycles`, to the cycle where the tests compare):

- **A stage's last sample**: a sample passes a stage in that stage's own time, where MAP gives every stage the slowest
  one's: (n - 1) T_max against the sum of the times along the longest path.
- **Handing over**: a sample needs `HANDOVER_CYCLES` more in every forward and backward stage, for the FIFO, the
  memory's answer and the result's register, and `LAST_CYCLES` in the loss and the gradient together. MAP has none.
- **Weight update**: a word of every pipeline's sums is read in the same cycle and added in a tree, and all layers are
  updated at once; MAP adds the DP sums one after the other, layer by layer. The update's own pipeline (Adam) comes on
  top once: `update_unit.update_latency`.
"""

from collections.abc import Sequence

from primitives.fpga.learner_pipeline.layer import LayerShape

HANDOVER_CYCLES = 4
LAST_CYCLES = 6


def stage_cycles(layers: Sequence[LayerShape]) -> dict[str, list[int]]:
    """Cycles of a sample in each stage: FW and WA of each layer, BW of each but the first, and the loss."""
    return {
        "FW": [layer.words for layer in layers],
        "LOSS": [1],
        "BW": [layer.blocks * layer.inputs for layer in layers[1:]],
        "WA": [layer.words for layer in layers],
    }


def pipeline_cycles(layers: Sequence[LayerShape], *, samples: int) -> int:
    """Cycles of the hardware from the first sample taken to the start of the update, in closed form.

    A sample's way ends in every layer's gradient; each way takes its stages' times once, and its slowest stage's for
    every further sample. The longest decides.
    """
    times, cycles = stage_cycles(layers), 0
    for number in range(len(layers)):
        back = times["BW"][number:]
        way = [*times["FW"], *times["LOSS"], *back, times["WA"][number]]
        handover = HANDOVER_CYCLES * (len(layers) + len(back)) + LAST_CYCLES
        cycles = max(cycles, sum(way) + handover + (samples - 1) * max(way))
    return cycles


def map_pipeline_cycles(layers: Sequence[LayerShape], *, samples: int) -> int:
    """T_pipeline = (PI + n - 1) T_max with n = 3 L (MAP VI-A2); `modelled`."""
    slowest = max(max(times, default=0) for times in stage_cycles(layers).values())
    return (samples + 3 * len(layers) - 1) * slowest


def map_update_cycles(layers: Sequence[LayerShape], *, pipelines: int) -> int:
    """T_WU = sum over layers of DP size(W) / lanes (MAP VI-A2, its r_WU f being a layer's lanes); `modelled`."""
    return sum(pipelines * layer.words for layer in layers)
