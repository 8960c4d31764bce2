"""What asv and pytest-benchmark time.

asv imports every module here from the newest tree, with the `harness` of each commit that it times. So no module
may do anything on import, or import what an older commit lacks.
"""
