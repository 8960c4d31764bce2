"""The limit of every wait in the tests."""

LIMIT_S = 800.0
"""Seconds after which a wait ends that never ends unless something is broken.

A busy machine may take minutes to start a process, so no wait has a shorter limit. pytest ends a test after 900 s.
"""
