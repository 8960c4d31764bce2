"""The mapping strategies, one file each."""
