"""The learner on PyTorch: eager, compiled, or as a CUDA graph."""
