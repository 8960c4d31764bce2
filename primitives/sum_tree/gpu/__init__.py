"""Parts shared by the OpenCL and CUDA sum trees."""
