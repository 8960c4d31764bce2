// Products in bfloat16 for processors with AVX-512 BF16.
#include "learner/native/bfloat16.hpp"

#if defined(__AVX512BF16__)
#define PLACERL_SIMD "avx512bf16"
#include "learner/native/kernels_body.hpp"

namespace placerl::learner {
namespace {
#include "learner/native/gemm_pairs.hpp"

constexpr Multiplier MULTIPLIER = {PLACERL_SIMD, PAIRS_WORKSPACE, &multiply_pairs, &multiply_pairs_block};
} // namespace

const Multiplier *avx512bf16_multiplier() {
    return avx512_kernels() && __builtin_cpu_supports("avx512bf16") ? &MULTIPLIER : nullptr;
}
} // namespace placerl::learner
#else
const placerl::learner::Multiplier *placerl::learner::avx512bf16_multiplier() { return nullptr; }
#endif
