"""The learner as kernels, generated from the step graph, on any device."""
