"""The primitives of deep reinforcement learning, each on every backend. The package works without the
harness.
"""
