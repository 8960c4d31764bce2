"""Load balancing (PPO 3.3): two compute units that train one network each, or share one, and their weight update."""
