"""The compute unit: the systolic core with its memories (PPO 3.2, Fig. 3)."""
