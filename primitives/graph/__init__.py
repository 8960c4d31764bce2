"""The step graph: a gradient step as a static graph, traced from PyTorch and run by every backend except PyTorch's."""
