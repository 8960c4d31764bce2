"""Processing units, functions that answer requests in a thread or process of their own, and shared memory."""
