"""The learner as OpenCL kernels, generated from the step graph."""
