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
#include <vector>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#include "quantization/native/kernels.hpp"

namespace placerl::quantization {
namespace {

#include "quantization/native/vector_unit.hpp"

#include "quantization/native/activation_unit.hpp"

#include "quantization/native/packing.hpp"

#include "quantization/native/rounding.hpp"

#include "quantization/native/adam.hpp"

#include "quantization/native/words.hpp"

#include "quantization/native/digits.hpp"

#include "quantization/native/wide_products.hpp"

#include "quantization/native/digit_products.hpp"

#define PLACERL_FUNCTION(name) &op_##name,
constexpr Kernels KERNELS = {
    PLACERL_SIMD,       &multiply_wide,
    &multiply_digits,   &magnitude_sums,
    &make_codes,        &short_codes,
    &split_digits,      &find_extremes,
    &sum_rows,          {PLACERL_COMMON_OPERATIONS(PLACERL_FUNCTION)},
    &load_raw,          &load_floats,
    &store_floats,      &store_raw,
    &store_from_floats, &update_adam,
    &add_rectify,       &mask_positive,
    &wide_block,        &narrow_block,
};
#undef PLACERL_FUNCTION

} // namespace
} // namespace placerl::quantization
