// Kernels for every processor: vectors of four floats by the compiler.
#define PLACERL_SIMD "portable"
#include "learner/native/kernels_body.hpp"

const placerl::learner::Kernels *placerl::learner::portable_kernels() { return &KERNELS; }
