"""The main job, `placerl reproduce`: which cells (units of work of a run) a tier measures, and the loop over them."""
