"""FIXAR (paper key FIX): fixed-point training and its adaptive array."""
