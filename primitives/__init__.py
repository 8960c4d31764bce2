"""The primitives of deep reinforcement learning, each on every backend. Usable without the harness."""
