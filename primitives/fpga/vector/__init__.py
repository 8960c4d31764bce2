"""Units that process a stream of numbers, a word per cycle: element by element, reductions, random numbers."""
