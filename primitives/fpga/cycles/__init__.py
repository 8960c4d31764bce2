"""Models of clock cycles as pure functions: the papers' formulas (`modelled`), and why the hardware here differs.

The hardware here is called the RTL, which stands for its description in Amaranth.
"""
