"""The parts of `placerl bench learner`: cells, the sides of each, and what limits the native learner."""
