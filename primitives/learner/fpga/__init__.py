"""The learner on simulated hardware."""
