"""FPGA devices, their resources, and the clock frequencies assumed for their designs."""
