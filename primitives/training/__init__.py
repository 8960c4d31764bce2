"""Training by threads outside the interpreter: `parallel` starts, watches and stops them."""
