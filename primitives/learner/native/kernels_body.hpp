// The kernels for the instruction set that this translation unit is compiled for. The including file defines
// PLACERL_SIMD, the set's name; everything here has internal linkage, so that no other unit's copy is linked
// in.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
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

constexpr Kernels KERNELS = {
    PLACERL_SIMD,
    &multiply,
    {loops<op::copy>(),      loops<op::neg>(),          loops<op::abs>(),
     loops<op::sign>(),      loops<op::exp>(),          loops<op::expm1>(),
     loops<op::log>(),       loops<op::log1p>(),        loops<op::sqrt>(),
     loops<op::rsqrt>(),     loops<op::reciprocal>(),   loops<op::sin>(),
     loops<op::cos>(),       loops<op::tanh>(),         loops<op::sigmoid>(),
     loops<op::erf>(),       loops<op::floor>(),        loops<op::ceil>(),
     loops<op::round>(),     loops<op::logical_not>(),  loops<op::add>(),
     loops<op::sub>(),       loops<op::mul>(),          loops<op::div>(),
     loops<op::pow>(),       loops<op::maximum>(),      loops<op::minimum>(),
     loops<op::remainder>(), loops<op::lt>(),           loops<op::le>(),
     loops<op::gt>(),        loops<op::ge>(),           loops<op::eq>(),
     loops<op::ne>(),        loops<op::logical_and>(),  loops<op::logical_or>(),
     loops<op::where>(),     loops<op::multiply_add>(), loops<op::multiply_subtract>()},
    &sum_rows,
    &max_rows,
    &min_rows,
    &sum_all,
    &max_all,
    &min_all,
    &all_finite,
    &multiply_add_block,
};

} // namespace
} // namespace placerl::learner
