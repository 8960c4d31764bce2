"""Hardware blocks in Amaranth, each a `wiring.Component` with a golden model in Python.

A golden model is a simple program that gives the results that the hardware must give. `primitives.fpga.simulation`
simulates a block cycle by cycle, `primitives.fpga.export.verilog` exports it, and `primitives.fpga.tools.resources`
counts its cells. Needs the extra `fpga`: `pip install 'placerl[fpga]'`.

Sources: MAP IV-B3, IV-C4, IV-D4; PRL 4.1.1; PPO 3 and 4; FIX V.
"""
