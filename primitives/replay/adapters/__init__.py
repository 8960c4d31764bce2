"""This project's prioritised replay inside other libraries (PAL VI-F): one module per library, imported
separately.

The libraries are not dependencies of this package; each module names the version it was tested with. TorchRL has no
adapter: none of its wheels (0.13.1 to 0.14.1) loads with torch 2.13.0.
"""
