"""PPO: an accelerator for proximal policy optimisation."""
