"""This project's prioritised replay inside other libraries (PAL VI-F): one module per library, imported
separately.

The libraries are not dependencies of this package; each module names the version it was tested with, in an environment
of that library's own: TorchRL 0.14.1, for one, loads with PyTorch 2.14.1 alone, which this package does not pin.
"""
