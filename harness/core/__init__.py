"""Holds what all of the harness uses: errors, progress bars, provenance, rows of the store, the code's revision."""
