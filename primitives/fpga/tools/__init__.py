"""Tools for the hardware blocks that users can export: they list, place and route them, and count their cells."""
