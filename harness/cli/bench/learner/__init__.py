"""The parts of `placerl bench learner`: configurations, the learners to time, and what limits the native one."""
