"""From Amaranth to Verilog: memories, modules, and the tools that take the text."""
