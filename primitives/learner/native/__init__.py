"""The learner on the native C++ executor."""
