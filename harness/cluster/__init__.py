"""Past one machine: the cells of a run on a Ray cluster. Needs the extra `cluster`."""
