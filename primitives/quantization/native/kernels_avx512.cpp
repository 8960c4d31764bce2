// Kernels for processors with AVX-512 (F, VL, DQ, BW).
#if defined(__AVX512F__)
#define PLACERL_SIMD "avx512"
#include "quantization/native/kernels_body.hpp"

const placerl::quantization::Kernels *placerl::quantization::avx512_kernels() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")
               ? &KERNELS
               : nullptr;
}
#else
#include "quantization/native/kernels.hpp"

const placerl::quantization::Kernels *placerl::quantization::avx512_kernels() { return nullptr; }
#endif
