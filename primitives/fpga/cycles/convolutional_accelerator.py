"""Cycles of the convolutional accelerator (`fpga.convolution.accelerator`), in closed form: of its steps, and of a run.

Both queues work at the same time, and a step begins once the steps of the other one are done on which it depends.
Exact for the accelerator with all tensors on the chip; `tests/primitives/fpga/convolution` compares it with the RTL.
With tensors in external memory, bands of windows come from there while the array works on the band before (PPO 4): a
transformation then takes at least the time of its lines' transfer, and so do the rows that a product writes or reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from placerl.primitives.fpga.convolution.program import BandProduct, ImageRun
from placerl.primitives.fpga.cycles.communication import Channel
from placerl.primitives.fpga.cycles.ppo_accelerator import CLIP_CYCLES, STEP_CYCLES, WAITS, occupied_cycles

FIRST_STEP_CYCLES = 2
"""Cycles from the start of a run to its first step."""
TRANSFORM_CYCLES = 4
"""Cycles of a transformation in addition to its moves: the first one, the tensors' memory, noticing the end, and
fetching the next step."""
APPLY_CYCLES = 4
"""Cycles of Adam's step in addition to its rows and their wait."""
ACCUMULATE_WAIT = 4
"""Cycles from the last row of a band's gradient until its sum is written."""
SQUARE_CYCLES = 6, 3
"""Further cycles if gradients are clipped: for the squares and their sum, and for each doubling of P."""
WORD_BYTES = 4
TENSOR_LINES = {"ACTIVATE": 1, "DERIVE": 2}
"""Lines of external memory for each line that a product moves: one is written, and in DERIVE one is read."""


@dataclass(frozen=True)
class RunCycles:
    """The cycles of a run.

    Attributes:
        total: from its start to the end of its last step.
        waited: those in which products waited for the layout transformation.
        memory: those by which transfers from and to external memory lengthen steps; the array's work hides some.
    """

    total: int
    waited: int = 0
    memory: int = 0


def product_cycles(step: BandProduct, side: int, activation: str, clips: bool = False) -> int:
    """Return the cycles from a product's start to that of the next, if that waits for nothing.

    Args:
        activation: "tanh" or "relu".
        clips: whether gradients are clipped.
    """
    if step.shape is None:
        return step.lines + WAITS[activation]["UPDATE"] + CLIP_CYCLES * clips + APPLY_CYCLES
    wait = ACCUMULATE_WAIT if step.kind == "ACCUMULATE" else WAITS[activation][step.kind]
    if clips and step.kind == "ACCUMULATE":
        wait += SQUARE_CYCLES[0] + SQUARE_CYCLES[1] * (side - 1).bit_length()
    return occupied_cycles(step.shape, side=side, dataflow=step.dataflow) + step.lines + wait + STEP_CYCLES


def run_cycles(
    run: ImageRun, *, side: int, activation: str = "relu", memory: Channel | None = None, clips: bool = False
) -> RunCycles:
    """Return the cycles of a run.

    Args:
        activation: "tanh" or "relu".
        memory: external memory that holds the tensors; None: they are on the chip.
        clips: whether gradients are clipped; Adam's step is then a run of its own.
    """

    def lengthened(lines: int, cycles: int) -> int:
        """Return by how many cycles the transfer of so many lines takes longer than without external memory."""
        if memory is None or not lines:
            return 0
        return max(0, memory.transfer_cycles(lines * WORD_BYTES * side) - cycles)

    of_transforms = [lengthened(step.reads, step.moves) for step in run.transforms]
    of_products = [
        lengthened(step.lines * TENSOR_LINES.get(step.kind, 0), step.lines) for step in run.products
    ]
    total, waited = _scheduled(
        run,
        [step.moves + more for step, more in zip(run.transforms, of_transforms, strict=True)],
        [
            product_cycles(step, side, activation, clips) + more
            for step, more in zip(run.products, of_products, strict=True)
        ],
    )
    return RunCycles(total, waited, sum(of_transforms) + sum(of_products))


def _scheduled(run: ImageRun, moves: Sequence[int], products: Sequence[int]) -> tuple[int, int]:
    """Return the cycles until both queues are done, and those in which products waited for the transformation.

    Args:
        run: the steps, for what each depends on.
        moves: cycles of each transformation's moves.
        products: cycles of each product.
    """
    filled: list[int] = []  # the cycle in which each transformation is done
    done: list[int] = []  # and each product
    free_transform = free_product = FIRST_STEP_CYCLES
    waited = 0
    while len(filled) < len(moves) or len(done) < len(products):
        at = len(filled)
        if at < len(moves) and run.transforms[at].after <= len(done):
            after = run.transforms[at].after
            start = max(free_transform, done[after - 1] if after else 0)
            free_transform = start + moves[at] + TRANSFORM_CYCLES
            filled.append(free_transform - 1)
            continue
        needed = run.products[len(done)].after
        start = max(free_product, filled[needed - 1] if needed else 0)
        waited += start - free_product
        free_product = start + products[len(done)]
        done.append(free_product - 1)
    return max(free_product, free_transform) - 1, waited
