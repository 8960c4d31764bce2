"""The folder that is put on the script's PYTHONPATH."""
