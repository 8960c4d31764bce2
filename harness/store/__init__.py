"""Rows kept in SQLite: nothing that was measured is lost, and stores of earlier versions open."""
