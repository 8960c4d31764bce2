"""The building blocks of deep reinforcement learning (sum trees, replay buffers, learners, environments), each with
several backends. The package works without the package `harness`, which measures and trains.
"""
