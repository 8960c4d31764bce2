// The kernels for the instruction set that this translation unit is compiled for. The including file defines
// PLACERL_SIMD, the set's name; everything here has internal linkage.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#include "quantization/native/kernels.hpp"

namespace placerl::quantization {
namespace {

#include "quantization/native/vector_unit.hpp"

#include "quantization/native/packing.hpp"

#include "quantization/native/rounding.hpp"

#include "quantization/native/products.hpp"

constexpr Kernels KERNELS = {
    PLACERL_SIMD,
    &multiply_wide,
    &multiply_narrow,
    &make_codes,
    &find_extremes,
    &sum_rows,
    {&op_neg,         &op_abs,         &op_sign,       &op_exp,  &op_expm1,   &op_log,   &op_log1p,
     &op_sqrt,        &op_rsqrt,       &op_reciprocal, &op_tanh, &op_sigmoid, &op_floor, &op_ceil,
     &op_round,       &op_logical_not, &op_add,        &op_sub,  &op_mul,     &op_div,   &op_maximum,
     &op_minimum,     &op_lt,          &op_le,         &op_gt,   &op_ge,      &op_eq,    &op_ne,
     &op_logical_and, &op_logical_or,  &op_where},
    &load_raw,
    &store_raw,
    &wide_block,
    &narrow_block,
};

} // namespace
} // namespace placerl::quantization
