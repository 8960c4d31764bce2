"""The timed pieces of a training, each defined once: for choosing, profiling, validating and predicting."""
