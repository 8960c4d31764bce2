"""What asv and pytest-benchmark time.

asv imports every module here from the newest tree beside the `harness` of each commit that it times: none may do
anything when imported, nor import what an older commit has not.
"""
