"""FIXAR's adaptive array, which multiplies matrices on cores that share either a layer or a batch (FIX V-A, V-B)."""
