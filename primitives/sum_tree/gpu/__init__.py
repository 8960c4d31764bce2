"""What the sum trees on OpenCL and CUDA share."""
