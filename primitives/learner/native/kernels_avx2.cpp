// Kernels for processors with AVX2 and FMA.
#if defined(__AVX2__) && defined(__FMA__)
#define PLACERL_SIMD "avx2"
#include "learner/native/kernels_body.hpp"

const placerl::learner::Kernels *placerl::learner::avx2_kernels() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &KERNELS : nullptr;
}
#else
#include "learner/native/kernels.hpp"

const placerl::learner::Kernels *placerl::learner::avx2_kernels() { return nullptr; }
#endif
