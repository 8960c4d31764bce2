"""Rows stored in SQLite: every measurement is kept, and stores of earlier versions can be opened."""
