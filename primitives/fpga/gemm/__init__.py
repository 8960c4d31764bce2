"""The systolic array that multiplies matrices, its memories and its controller (PPO 3.2)."""
