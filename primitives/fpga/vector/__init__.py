"""Units that take a word of numbers a cycle: streams, reductions, random numbers."""
