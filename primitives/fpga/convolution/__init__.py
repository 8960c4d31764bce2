"""Computes convolutions as matrix products (im2col; PPO 3.2.1), and trains networks of them on one compute unit."""
