"""FPGA devices, what they hold, and the clocks that their designs are assumed to run at."""
