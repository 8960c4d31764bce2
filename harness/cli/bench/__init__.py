"""Benchmarks: what asv and pytest-benchmark run (`timed`), and those with a target of the Makefile."""
