"""Units that take a word of numbers per cycle: streams, reductions, random numbers."""
