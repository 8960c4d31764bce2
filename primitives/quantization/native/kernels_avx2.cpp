// Kernels for processors with AVX2.
#if defined(__AVX2__)
#define PLACERL_SIMD "avx2"
#include "quantization/native/kernels_body.hpp"

const placerl::quantization::Kernels *placerl::quantization::avx2_kernels() {
    return __builtin_cpu_supports("avx2") ? &KERNELS : nullptr;
}
#else
#include "quantization/native/kernels.hpp"

const placerl::quantization::Kernels *placerl::quantization::avx2_kernels() { return nullptr; }
#endif
