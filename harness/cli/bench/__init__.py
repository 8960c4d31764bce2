"""Holds the benchmarks: those that asv and pytest-benchmark run (`timed`), and those of `placerl bench`."""
