"""Training in C++ threads that do not need Python's interpreter; `parallel` starts, watches and stops them."""
