// Kernels for processors with AVX-512 (F, VL, DQ, BW) and its VNNI: one instruction for two 16-bit
// multiply-adds.
#if defined(__AVX512VNNI__)
#define PLACERL_SIMD "avx512vnni"
#include "quantization/native/kernels_body.hpp"

const placerl::quantization::Kernels *placerl::quantization::avx512vnni_kernels() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vnni")
               ? &KERNELS
               : nullptr;
}
#else
#include "quantization/native/kernels.hpp"

const placerl::quantization::Kernels *placerl::quantization::avx512vnni_kernels() { return nullptr; }
#endif
