"""Exports hardware blocks from Amaranth to Verilog, and runs the tools that read the Verilog."""
