"""Design space exploration: finds hardware designs that fit a device, and the cycles that they take."""
