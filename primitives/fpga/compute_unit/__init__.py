"""The systolic core between its memories (PPO 3.2, Fig. 3)."""
