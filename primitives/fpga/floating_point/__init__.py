"""float32 operators of the stream units: pipelined, one result a cycle, each with a golden model.

A number is IEEE 754 binary32 with two simplifications, usual on FPGAs: subnormal numbers are zeros, going in and
coming out, and there is no NaN. Rounding is to nearest, ties to even. What comes of an infinity or of an undefined
operation is left open: learners are stopped by a non-finite batch before it reaches the hardware.

`golden` has the models in NumPy, `operators` the table of operators with their latencies.
"""
