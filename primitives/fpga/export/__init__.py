"""Exports blocks from Amaranth to Verilog: their memories, their modules, and the tools that take the text."""
