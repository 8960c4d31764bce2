"""The names of the sets of devices among which a strategy chooses, as rows state them in `chosen_among`."""

HERE, WITH_SIMULATED = "here", "here and simulated"
"""This machine's own devices, and these with the simulated FPGA."""
