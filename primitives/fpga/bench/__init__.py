"""Benches for exported hardware in the tools of the trade: cocotb on Verilator and Icarus Verilog, and FuseSoC.

`recorder` simulates a block in Amaranth's own simulator, with stimuli that the block gives (`stimuli`), and writes
every port's value in every cycle to a file. `cocotb_bench` is the bench that is exported next to the block: it replays
the inputs on the exported Verilog and compares the outputs. So the bench needs neither PlaceRL nor Amaranth. The tests
of each block hold Amaranth's simulation against the block's golden model.
"""
