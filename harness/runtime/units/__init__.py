"""Processing units joined by bounded queues, and what they share."""
