"""This project and other libraries in interleaved rounds, each library in an environment of its own."""
