"""The main job: the cells of a tier, each measured once and stored as soon as it ends."""
