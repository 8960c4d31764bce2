"""The harness trains and times workloads with the primitives, maps them to devices, and checks papers' claims."""
