"""The replay pipeline: the sum tree in hardware (MAP IV-C4 and IV-D4, PRL 4.1.1)."""

from placerl.primitives.fpga.replay_pipeline.banked import BankedPipeline
from placerl.primitives.fpga.replay_pipeline.layout import BankedLayout, Form, Operation, PipelineLayout
from placerl.primitives.fpga.replay_pipeline.pipeline import ReplayPipeline

__all__ = [
    "BankedLayout",
    "BankedPipeline",
    "Form",
    "Operation",
    "PipelineLayout",
    "ReplayPipeline",
]
