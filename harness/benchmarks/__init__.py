"""Benchmarks: what asv and pytest-benchmark run (`primitives.py`), and those with a target of the Makefile.

asv imports every module here: none may do anything when imported, nor begin a name with `time_` or `track_`.
"""
