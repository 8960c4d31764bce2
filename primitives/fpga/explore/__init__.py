"""Design space exploration: what fits a device and needs the fewest cycles."""
