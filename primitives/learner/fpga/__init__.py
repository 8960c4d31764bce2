"""The learner on a simulated FPGA."""

LANES = 16
"""Elements of a memory word: the width of the core."""
