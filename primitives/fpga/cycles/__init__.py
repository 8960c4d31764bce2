"""Models of clock cycles as pure functions: the papers' formulas, and why the hardware of this project differs.

The hardware of this project is called the RTL, which stands for its description in Amaranth. A number that comes from
a formula is marked `modelled`, one from a simulation of the RTL `simulated`.
"""
