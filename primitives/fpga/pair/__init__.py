"""Two compute units with balanced load, and the weight update between them (PPO 3.3)."""
