"""The steps of the convolutional accelerator's program: of the layout transformation, and of products."""

from amaranth.lib import data, enum

from placerl.primitives.fpga.convolution.layout_transform import ADDRESS_BITS, WindowCommand
from placerl.primitives.fpga.gemm.control import INDEX_BITS, GemmCommand

LINE_BITS = ADDRESS_BITS - 1  # of the address of a line of P numbers


class ProductKind(enum.Enum, shape=3):  # type: ignore[call-arg]
    """What a product is (PPO 3.2), and where its rows go."""

    OUTPUT = 0
    """Forward: to the host."""
    ACTIVATE = 1
    """Forward: through the activation function to the tensors."""
    DERIVE = 2
    """Backward: times the derivative of the activation function, to the tensors."""
    ACCUMULATE = 3
    """Weight gradient of a band: added to that of the bands before it."""
    APPLY = 4
    """No product: rows of the summed gradient, through Adam to the weights."""


TransformStep = data.StructLayout(
    {
        "windows": WindowCommand,  # of lines
        "base": INDEX_BITS,  # the first block
        "pitch": INDEX_BITS,  # blocks in a row
        "to_deltas": 1,  # to the memory of deltas; otherwise to that of windows
        "after": INDEX_BITS,  # products of the run that are done before
    }
)
"""A band of a tensor that becomes a matrix."""

Places = data.StructLayout(
    {
        "first": LINE_BITS,
        "columns": INDEX_BITS,  # pixels in a row
        "rows": INDEX_BITS,
        "column_step": LINE_BITS,
        "row_step": LINE_BITS,
        "image_step": LINE_BITS,
    }
)
"""The lines of consecutive pixels of a tensor."""

ProductStep = data.StructLayout(
    {
        "kind": ProductKind,
        "gemm": GemmCommand,
        "base_a": INDEX_BITS,  # the first block of the windows
        "pitch_a": INDEX_BITS,
        "base_b": INDEX_BITS,  # of the weights; in DERIVE of their last tap; in ACCUMULATE of the deltas
        "pitch_b": INDEX_BITS,
        "tap_rows": INDEX_BITS,  # DERIVE: blocks of rows from a tap of the weights to the next
        "tap_shift": 4,  # DERIVE: log2 of the lines of an output pixel
        "size": LINE_BITS,  # rows that exist
        "row_lines": INDEX_BITS,  # lines of a row
        "to": Places,  # ACTIVATE, DERIVE
        "activations": LINE_BITS,  # DERIVE: the first line of the activations
        "base_gradient": INDEX_BITS,  # ACCUMULATE, APPLY: the first block of the gradient
        "first": 1,  # ACCUMULATE: there is no band before it
        "last": 1,  # ACCUMULATE: nor after it
        "after": INDEX_BITS,  # transformations of the run that are done before
    }
)
"""A product, and what is done with its rows. Counts are at least 1."""
