"""Compares this project with other libraries in interleaved rounds, each library in its own virtual environment."""
