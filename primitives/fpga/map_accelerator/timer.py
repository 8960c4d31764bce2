"""The clock cycles of a gradient step of MAP's accelerator in closed form, which the tests compare with its RTL.

A step draws B samples, computes the first importance weight, sends the batch through the pipelines, and updates all
weights; the priorities' update overlaps. DDPG's batch is sent twice, for the critic and for the actor. Pipelines get
their samples in turn, one per cycle, so that one that is faster than DP cycles per sample waits. With S banks the draw
depends on how many samples each bank holds; the closed form is exact for one bank.
"""

from placerl.primitives.fpga.cycles import replay
from placerl.primitives.fpga.cycles.learner import gradient_step_passes, pipeline_cycles, update_cycles
from placerl.primitives.fpga.learner_pipeline.update_unit import target_latency
from placerl.primitives.fpga.map_accelerator.replay_manager import WEIGHT_LATENCY
from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings

SEQUENCER_CYCLES = 12
"""Cycles of a step between its phases, and in the registers and queues on the way of a batch."""
SECOND_PASS_CYCLES = 7
"""The same cycles of the second time that a batch is sent."""
RUN_CYCLES = 2
"""Cycles of a run in addition to those of its steps."""


def step_cycles(settings: AcceleratorSettings, batch_size: int) -> int:
    """Return the clock cycles of a gradient step; a run of several has `RUN_CYCLES` more.

    Args:
        settings: sizes, with one bank.
        batch_size: B, a multiple of the pipelines.
    """
    timing = replay.level_timing(fanout=settings.fanout, narrow=False, samples=True)
    drawing = replay.pipeline_cycles(batch_size, levels=settings.levels, timing=timing)
    passes = gradient_step_passes(settings.layers, settings.actor)
    learning = [
        WEIGHT_LATENCY
        + pipeline_cycles(work, samples=batch_size // settings.pipelines, interval=settings.pipelines)
        + settings.pipelines
        - 1
        + update_cycles(work, adam_latency=target_latency())
        for work in passes
    ]
    return SEQUENCER_CYCLES + drawing + sum(learning) + SECOND_PASS_CYCLES * (len(passes) - 1)
