"""What `make bench-learner` times: cells, the sides of each, and what limits the native learner."""
