"""tanh in fixed point: a table of 512 segments over [0, 8), with linear interpolation.

Numbers have 16 fraction bits. The error is below 3 units of 2^-16. FIX names the function and not its hardware.
"""

import math

from placerl.primitives.fpga.fixar.shape import ACTIVATIONS, ONE

SEGMENT_BITS = 10  # of a segment's width, 2^-6
SEGMENTS = 512
LIMIT = SEGMENTS << SEGMENT_BITS  # the raw value 8, from which on the result is 1
TABLE = tuple(
    round(math.tanh(number * 2.0 ** (SEGMENT_BITS - ACTIVATIONS.fraction_bits)) * ONE)
    for number in range(SEGMENTS)
)
RISES = tuple(after - before for before, after in zip(TABLE, (*TABLE[1:], ONE), strict=True))
"""How much tanh rises over each segment, raw; at most `RISE_BITS` bits."""
RISE_BITS = max(RISES).bit_length()
