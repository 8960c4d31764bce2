"""Hardware blocks in Amaranth, each a `wiring.Component` with a golden model in Python.

A golden model is a simple program that gives the results that the hardware must give. `primitives.fpga.simulation`
simulates a block cycle by cycle, `primitives.fpga.export.verilog` exports it, and `primitives.fpga.tools.resources`
counts its cells. Needs the extra `fpga`: `pip install 'placerl[fpga]'`.

Names of arguments that mean the same everywhere:

- `side`: P, the rows and columns of an array, of its blocks and of its memories;
- `dataflow`: what stays in the array: "NS" (only sums), "WS" (A, PPO 4: weights) or "IS" (B, PPO 4: inputs);
- `width`, `accumulator_width`: bits of a word and of a sum; `halves`: words hold two numbers of half the width;
- `fanout`, `banks`, `levels`: of a sum tree K (MAP: F), the children of a node; S, the sub-trees; a sub-tree's levels;
- `pipelines`, `samples`, `batch_size`: DP, the pipelines that divide a batch; PI, the samples of each; B, of all;
- `cores`: N, the cores of FIX's accelerator; `m`: the module that gets the hardware.

Sources: MAP IV-B3, IV-C4, IV-D4; PRL 4.1.1; PPO 3 and 4; FIX V.
"""
