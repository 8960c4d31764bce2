"""MAP: mapping deep reinforcement learning onto heterogeneous machines."""
