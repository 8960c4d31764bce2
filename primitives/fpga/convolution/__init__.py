"""Convolutions as matrix products, through the layout transformation (PPO 3.2.1)."""
