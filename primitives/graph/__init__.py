"""The step graph: traced from PyTorch, simplified, lowered, and run by every backend except PyTorch."""
