"""float32 operators of the stream units: pipelined, one result per cycle, each with a golden model.

Numbers are IEEE 754 binary32 with two simplifications that are usual on FPGAs: subnormal numbers are treated as
zeros, at inputs and outputs, and there is no NaN. Rounding is to nearest, ties to even. The result of an infinity or
of an undefined operation is not specified: a non-finite batch stops a learner before it reaches the hardware.

`golden` contains the models in NumPy, `operators` the table of operators with their latencies.
"""
