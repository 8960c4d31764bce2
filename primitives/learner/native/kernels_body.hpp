// The kernels for the instruction set that this translation unit is compiled for. The including file defines
// PLACERL_SIMD, the set's name; everything here has internal linkage, so that no other unit's copy is linked
// in.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#include "learner/native/kernels.hpp"

namespace placerl::learner {
namespace {

#include "learner/native/simd.hpp"

#include "learner/native/elementwise.hpp"
#include "learner/native/gemm.hpp"

#define PLACERL_LOOPS(name) loops<op::name>(),
constexpr Kernels KERNELS = {
    PLACERL_SIMD,       &multiply<Exact>,
    &multiply<Rounded>, {PLACERL_COMMON_OPERATIONS(PLACERL_LOOPS) PLACERL_FLOAT_OPERATIONS(PLACERL_LOOPS)},
    &sum_rows,          &max_rows,
    &min_rows,          &sum_all,
    &max_all,           &min_all,
    &all_finite,        &multiply_add_block,
};
#undef PLACERL_LOOPS

} // namespace
} // namespace placerl::learner
