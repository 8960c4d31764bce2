"""Actors: they step environments and choose actions, in this process or in others."""
