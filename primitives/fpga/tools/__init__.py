"""Blocks by name: counting their cells, linting and placing them."""
