"""Timing: the protocol, its statistics, the rows made from results, and the conditions of a measurement."""
