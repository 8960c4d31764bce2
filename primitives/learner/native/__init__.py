"""The learner in C++: step graphs become programs of a native executor."""
