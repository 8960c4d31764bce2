"""The replay pipeline: the sum tree in hardware (MAP IV-C4 and IV-D4, PRL 4.1.1)."""

from placerl.primitives.fpga.replay_pipeline.banked import BankedPipeline
from placerl.primitives.fpga.replay_pipeline.golden import BankedGoldenTree, GoldenTree, Request, Response
from placerl.primitives.fpga.replay_pipeline.layout import BankedLayout, Form, Operation, PipelineLayout
from placerl.primitives.fpga.replay_pipeline.pipeline import ReplayPipeline

__all__ = [
    "BankedGoldenTree",
    "BankedLayout",
    "BankedPipeline",
    "Form",
    "GoldenTree",
    "Operation",
    "PipelineLayout",
    "ReplayPipeline",
    "Request",
    "Response",
]
