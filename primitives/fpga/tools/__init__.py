"""Blocks by name: their cells, their lint, their placement."""
