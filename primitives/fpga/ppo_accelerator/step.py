"""A step of the accelerator's program: a product, and what is done with its rows."""

from amaranth.lib import data, enum

from placerl.primitives.fpga.gemm.control import INDEX_BITS, GemmCommand


class PpoStepKind(enum.Enum, shape=2):  # type: ignore[call-arg]
    """What a step computes (PPO 3.2), and where the rows of its product go."""

    OUTPUT = 0
    """Forward, z = W a: to the host."""
    ACTIVATE = 1
    """Forward, z = W a: through the activation function to the activations."""
    DERIVE = 2
    """Backward, W^T d: times the derivative of the activation function, to the deltas."""
    UPDATE = 3
    """Weight gradient, d a^T: through Adam to the weights."""


Step = data.StructLayout(
    {
        "kind": PpoStepKind,
        "gemm": GemmCommand,
        "base_a": INDEX_BITS,  # the first block of A as stored: in the weights, or in the deltas (UPDATE)
        "pitch_a": INDEX_BITS,  # blocks in its rows
        "base_b": INDEX_BITS,  # the first block of B as stored, in the activations
        "pitch_b": INDEX_BITS,
        "base_to": INDEX_BITS,  # the first block to which rows go
        "base_activation": INDEX_BITS,  # DERIVE: the first block of the activations
        "row_blocks": INDEX_BITS,  # rows of blocks that go there
        "column_blocks": INDEX_BITS,
        "size": INDEX_BITS,  # rows that exist; those after them are 0, but the first of them is 1 (ACTIVATE)
    }
)
"""The fields of a step. Counts are at least 1."""
