"""Processing units connected by bounded queues, and their shared memory."""
