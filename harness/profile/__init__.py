"""The time of every primitive on every device: measured on this machine's devices, simulated for the FPGA."""
