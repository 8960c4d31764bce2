"""Convolutions as matrix products, by the layout transformation (PPO 3.2.1)."""
