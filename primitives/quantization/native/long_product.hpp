// Products whose sums 64 bits might not hold, or that are moved further than those can be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "quantization/native/kernels.hpp"

namespace placerl::quantization {

__extension__ using LongInteger = __int128;

// Rounded as `r` says, not yet saturated: beyond the format by at least one where it does not fit.
inline LongInteger rounded(const Rounding &r, LongInteger sum) {
    if (r.scaled) {
        constexpr double LARGEST = 0x1p62;
        const double x = static_cast<double>(sum) * r.factor, below = std::floor(x);
        const double whole = below + (x - below >= 0.5 ? 1.0 : 0.0);
        return static_cast<LongInteger>(std::clamp(whole, -LARGEST, LARGEST));
    }
    // A sum takes fewer than 100 bits: beyond that, nothing changes any more.
    if (r.places > 0) {
        const int places = std::min(r.places, 120);
        return (sum >> places) + (sum >> (places - 1) & 1);
    }
    const int left = std::min(-r.places, 40);
    const LongInteger limit = LongInteger(1) << 32;
    return std::clamp(sum, -limit, limit) * (LongInteger(1) << left);
}

// As `Kernels::multiply_wide`.
inline int64_t multiply_long(const Kernels &kernels, const MatrixProduct &p, const Rounding &r,
                             const Epilogue &then) {
    int64_t saturated = 0;
    for (int i = 0; i < p.rows; ++i) {
        int32_t *c = r.c + i * r.c_row;
        for (int j = 0; j < p.columns; ++j) {
            const int32_t *a = p.a + i * p.a_row, *b = p.b + j * p.b_column;
            LongInteger sum = 0;
            for (int k = 0; k < p.depth; ++k, a += p.a_column, b += p.b_row)
                sum += int64_t(*a) * *b;
            const LongInteger whole = rounded(r, sum),
                              clipped = std::clamp<LongInteger>(whole, r.lowest, r.highest);
            c[j * r.c_column] = static_cast<int32_t>(clipped);
            saturated += clipped != whole;
        }
        if (then.bias)
            saturated += kernels.add_rectify(c, c, then.bias, p.columns, static_cast<int32_t>(r.highest));
        else if (then.mask)
            kernels.mask(c, then.mask + i * r.c_row, nullptr, c, p.columns, 0);
    }
    return saturated;
}

} // namespace placerl::quantization
