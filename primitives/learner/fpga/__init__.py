"""The learner on a simulated FPGA."""

LANES = 16
"""Numbers in a memory word, which is as wide as the systolic core."""
