"""FIXAR's adaptive array, whose cores share either a layer or a batch (FIX V-A, V-B)."""
