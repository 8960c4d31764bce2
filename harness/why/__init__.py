"""Says where the time of a training script goes, a user's own, which runs unchanged (`placerl why`)."""
