"""Two compute units with balanced load, and the weight update that they share (PPO 3.3)."""
