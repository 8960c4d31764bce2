"""The training loop, its clocks, and the schedule that says in which order its calls are made and what overlaps."""
