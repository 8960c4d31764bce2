"""The sequencer of the learner's stream and reduction units (`vector.stream_sequencer`)."""

from collections.abc import Callable, Sequence
from typing import Any

from placerl.primitives.fpga.cycles.timed_block import TimedBlock


def build() -> Any:
    """Return the block."""
    from placerl.primitives.fpga.vector.stream_sequencer import StreamSequencer

    return StreamSequencer()


def simulate(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[int]:
    """Return the cycles from the command for a tensor to its end.

    Args:
        parameters: none.
        sizes: the memory words of each tensor, and the unit's latency.
    """
    model, found = start(), []
    for words, latency in sizes:
        run = model.run({"commands": {"words": [words], "latency": [latency]}}, {"done": 1})
        found.append(int(run.output_cycles["done"][0] - run.input_cycles["commands"][0]))
    return found


BLOCK = TimedBlock("stream_sequencer", "placerl.primitives.fpga.vector.stream_sequencer", build, simulate)
