"""Holds the benchmarks that asv and pytest-benchmark run.

asv imports every module of this folder from the newest commit, but the rest of `harness` from the commit that it times.
So no module here may do anything on import, or import what an older commit lacks.
"""
