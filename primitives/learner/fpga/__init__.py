"""The learner on a simulated FPGA."""

LANES = 16
"""How many float32 numbers the FPGA's memory reads or writes in a cycle: as many as the systolic core is wide."""
