"""Design space exploration: designs that fit a device, and their cycles."""
