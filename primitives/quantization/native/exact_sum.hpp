// A sum that does not depend on the order of its terms.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace placerl::quantization {

// The correctly rounded sum of n numbers, as Python's math.fsum gives it (Shewchuk 1997, "Adaptive precision
// floating-point arithmetic"); NaN where a term or a sum on the way is not finite.
inline double sum_by_parts(const double *x, long n) {
    std::vector<double> parts; // not overlapping, growing
    for (long i = 0; i < n; ++i) {
        double high = x[i];
        size_t kept = 0;
        for (double part : parts) {
            if (std::fabs(high) < std::fabs(part))
                std::swap(high, part);
            const double sum = high + part, low = part - (sum - high);
            if (low != 0)
                parts[kept++] = low;
            high = sum;
        }
        if (!std::isfinite(high))
            return std::numeric_limits<double>::quiet_NaN();
        parts.resize(kept);
        parts.push_back(high);
    }
    double total = 0, rest = 0;
    while (!parts.empty() && rest == 0) {
        const double part = parts.back(), sum = total + part;
        parts.pop_back();
        rest = part - (sum - total);
        total = sum;
    }
    // What is half way between two numbers goes where the parts below it pull.
    if (!parts.empty() && (rest < 0) == (parts.back() < 0)) {
        const double twice = 2 * rest, moved = total + twice;
        if (twice == moved - total)
            total = moved;
    }
    return total;
}

#if defined(__SIZEOF_INT128__)
// The same where every term is a whole number of steps that are no finer than 2^-60 of the largest term: as
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

inline double sum_exactly(const double *x, long n) {
#if defined(__SIZEOF_INT128__)
    double total;
    if (sum_as_integer(x, n, &total))
        return total;
#endif
    return sum_by_parts(x, n);
}

} // namespace placerl::quantization
