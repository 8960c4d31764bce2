"""The learner in C++."""
