"""The sum tree on the replay pipeline, hardware (MAP IV-C4, IV-D4; PRL 4.1.1) that Verilator simulates cycle by cycle.

Each call is a batch of requests to the pipeline and records the clock cycles that it took in
`last_call_cycles`. Its time is these cycles at `clock_hz`. The wall time is only that of the simulation and
is not used.

**Fixed point.** A priority is an unsigned number with `integer_bits` before and `fraction_bits` after the
point. `update` rounds it to the nearest such number, ties upwards. A positive priority is never rounded to 0
but to at least 2^-fraction_bits, so that its leaf can still be drawn. The largest priority allowed is
`priority_max`. Sums are exact: they grow by log2 K bits per level, so `total` and the results of `find` are
exact for the rounded priorities.

With the option `contents="software"` nothing is simulated: software answers the requests with the same numbers, and
counts the same cycles.
"""

from typing import Any

from placerl.primitives.backend import BackendUnavailableError, check_options
from placerl.primitives.fpga.cycles import timed_block
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.sum_tree.base import SumTree
from placerl.primitives.sum_tree.fpga_timed import TimedSumTree
from placerl.primitives.sum_tree.fpga_tree import FORMS, FpgaSumTree, PipelineOptions

__all__ = ["FORMS", "FpgaSumTree", "PipelineOptions", "TimedSumTree", "create", "unavailable_reason"]

SIMULATED = True

CONTENTS = ("hardware", "software")


def unavailable_reason() -> str:
    """Return why the hardware's cycles cannot be had here; empty if they can.

    With contents in hardware a tree also needs the tools that simulate it.
    """
    return timed_block.unavailable_reason()


def check_device(device: str) -> None:
    """Raise ValueError unless there is the board."""
    PipelineOptions(device=device).clock()


def create(capacity: int, fanout: int, **options: Any) -> SumTree:
    """Create an `FpgaSumTree`.

    Args:
        **options: the fields of `PipelineOptions`.

    Raises:
        ValueError: an argument is out of range; the message names it.
        TypeError: there is no such option.
        BackendUnavailableError: the contents are in hardware, and the tools that simulate it are missing.
    """
    check_options(PipelineOptions, "fpga", options)
    settings = PipelineOptions(**options)
    if settings.contents not in CONTENTS:
        raise ValueError(f"contents: found {settings.contents!r}; allowed: {', '.join(CONTENTS)}")
    if settings.contents == "software":
        return TimedSumTree(capacity, fanout, settings)
    if reason := toolchain.unavailable_reason():
        raise BackendUnavailableError(f"contents: found hardware; allowed: software: {reason}")
    return FpgaSumTree(capacity, fanout, settings)
