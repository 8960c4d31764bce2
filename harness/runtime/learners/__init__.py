"""Learners of several processes or threads that differentiate parts of one batch."""
