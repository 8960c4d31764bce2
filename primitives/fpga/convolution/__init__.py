"""Computes convolutions as matrix products: a module transforms the layout of the images (im2col; PPO 3.2.1)."""
