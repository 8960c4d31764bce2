"""The replay pipeline: the sum tree in hardware (MAP IV-C4 and IV-D4, PRL 4.1.1)."""

from primitives.fpga.replay_pipeline.golden import GoldenTree, Request, Response
from primitives.fpga.replay_pipeline.layout import Form, Operation, TreeLayout
from primitives.fpga.replay_pipeline.pipeline import ReplayPipeline

__all__ = ["Form", "GoldenTree", "Operation", "ReplayPipeline", "Request", "Response", "TreeLayout"]
