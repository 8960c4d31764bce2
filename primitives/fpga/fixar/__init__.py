"""FIXAR as a whole: an accelerator in RTL that trains DDPG's networks in fixed point (FIX III to V)."""
