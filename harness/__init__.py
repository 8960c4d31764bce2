"""The harness: workloads, measurement, mapping, runtime, claims and report around the primitives."""
