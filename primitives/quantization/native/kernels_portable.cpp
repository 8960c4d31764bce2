// Kernels for every processor.
#define PLACERL_SIMD "portable"
#include "quantization/native/kernels_body.hpp"

const placerl::quantization::Kernels *placerl::quantization::portable_kernels() { return &KERNELS; }
