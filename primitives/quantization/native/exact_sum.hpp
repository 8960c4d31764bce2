// A sum that does not depend on the order of its terms.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace placerl::quantization {

// A sum of binary64 numbers as the integer of steps of 2^-1074 that it is (Kulisch's long accumulator), in
// limbs of 32 bits whose carries wait: fewer than 2^30 numbers.
class LongSum {
  public:
    void add(double x) {
        const auto bits = std::bit_cast<uint64_t>(x);
        const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
        if (exponent == 0x7ff) {
            special_ += x; // NaN, or an infinity; both of these make NaN
            is_special_ = true;
            return;
        }
        const uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
        const uint64_t mantissa = exponent ? fraction | uint64_t(1) << 52 : fraction;
        const int places = exponent ? exponent - 1 : 0, within = places % BITS;
        int64_t *limb = limbs_.data() + places / BITS;
        const int64_t sign = bits >> 63 ? -1 : 1;
        // 32 bits and what is left of 53, moved by up to 31.
        const uint64_t low = (mantissa & MASK) << within, high = (mantissa >> BITS) << within;
        limb[0] += sign * static_cast<int64_t>(low & MASK);
        limb[1] += sign * static_cast<int64_t>((low >> BITS) + (high & MASK));
        limb[2] += sign * static_cast<int64_t>(high >> BITS);
    }

    // Correctly rounded, ties to even; an infinity beyond the range.
    double rounded() const {
        if (is_special_)
            return special_;
        std::array<int64_t, LIMBS> limbs = limbs_;
        const bool negative = carried(limbs) < 0;
        if (negative) {
            for (size_t i = 0; i < LIMBS; ++i)
                limbs[i] = -limbs_[i];
            carried(limbs);
        }
        int top = LIMBS - 1;
        while (top >= 0 && !limbs[static_cast<size_t>(top)])
            --top;
        if (top < 0)
            return 0;
        const auto limb = [&](int i) {
            return i < 0 ? uint64_t(0) : static_cast<uint64_t>(limbs[static_cast<size_t>(i)]);
        };
        // The 64 bits from the highest on, and whether there is anything below them.
        const int width = std::bit_width(limb(top));
        const uint64_t kept = limb(top) << (64 - width) | limb(top - 1) << (BITS - width) |
                              (width < BITS ? limb(top - 2) >> width : 0);
        bool below = width < BITS ? (limb(top - 2) & ((uint64_t(1) << width) - 1)) != 0 : limb(top - 2) != 0;
        for (int i = top - 3; i >= 0; --i)
            below |= limb(i) != 0;
        const int lowest = top * BITS + width - 64; // the place of the last of the bits kept
        // Below 2^-1074 there is nothing, so that the conversion rounds once: at 64 bits, the last of them is
        // behind binary64's.
        const double magnitude = std::ldexp(static_cast<double>(kept | (below ? 1 : 0)), lowest - 1074);
        return negative ? -magnitude : magnitude;
    }

  private:
    static constexpr int BITS = 32;
    static constexpr uint64_t MASK = 0xffffffff;
    static constexpr size_t LIMBS = (2046 + 53) / BITS + 3;

    // Leaves each limb in [0, 2^32); returns what is carried out.
    static int64_t carried(std::array<int64_t, LIMBS> &limbs) {
        int64_t carry = 0;
        for (int64_t &limb : limbs) {
            const int64_t sum = limb + carry;
            limb = static_cast<int64_t>(static_cast<uint64_t>(sum) & MASK);
            carry = sum >> BITS;
        }
        return carry;
    }

    std::array<int64_t, LIMBS> limbs_{};
    double special_ = 0;
    bool is_special_ = false;
};

#if defined(__SIZEOF_INT128__)
// A sum where every term is a whole number of steps that are no finer than 2^-60 of the largest term: as
// an integer of 128 bits. Returns whether it is.
inline bool sum_as_integer(const double *x, long n, double *total) {
    constexpr int64_t MANTISSA = (int64_t(1) << 52) - 1;
    constexpr int EXPONENTS = 0x7ff, SPREAD = 60;
    int largest = 0;
    for (long i = 0; i < n; ++i)
        largest = std::max(largest, static_cast<int>(std::bit_cast<int64_t>(x[i]) >> 52 & EXPONENTS));
    const int finest = largest - SPREAD;
    if (largest > 2000 || finest < 1 || n > 1 << 12)
        return false; // not finite, or near the ends of the range
    __int128 sum = 0;
    for (long i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<int64_t>(x[i]);
        const int exponent = static_cast<int>(bits >> 52 & EXPONENTS);
        if (exponent == 0 && (bits & MANTISSA) == 0)
            continue;
        if (exponent < finest)
            return false;
        const __int128 magnitude = __int128((bits & MANTISSA) | (MANTISSA + 1)) << (exponent - finest);
        sum += bits < 0 ? -magnitude : magnitude;
    }
    // To 53 bits, ties to even; what is cut off ends in a bit that says whether it was anything.
    const bool negative = sum < 0;
    unsigned __int128 rest = negative ? -static_cast<unsigned __int128>(sum) : sum;
    int places = 0;
    if (const auto high = static_cast<uint64_t>(rest >> 64))
        places = 64 - std::countl_zero(high);
    const auto kept = static_cast<uint64_t>(rest >> places);
    const bool sticky = places && (rest & ((static_cast<unsigned __int128>(1) << places) - 1)) != 0;
    // The conversion rounds once: at 64 bits, the last of them is far behind binary64's.
    const auto rounded = static_cast<double>(kept | (sticky ? 1 : 0));
    *total = std::ldexp(negative ? -rounded : rounded, places + finest - 1075);
    return true;
}
#endif

// The correctly rounded sum of n numbers, whatever they are: infinities and NaN as IEEE 754 has them.
inline double sum_exactly(const double *x, long n) {
#if defined(__SIZEOF_INT128__)
    double total;
    if (sum_as_integer(x, n, &total))
        return total;
#endif
    LongSum sum;
    for (long i = 0; i < n; ++i)
        sum.add(x[i]);
    return sum.rounded();
}

} // namespace placerl::quantization
