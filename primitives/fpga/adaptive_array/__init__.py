"""The adaptive array of FIXAR (FIX V-A, V-B)."""
