"""Keeps all measurements in an SQLite file, the store, and compares the runs in it."""
