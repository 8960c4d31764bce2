// A sum that does not depend on the order of its terms.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace placerl::quantization {

// The correctly rounded sum of n numbers at an address, as Python's math.fsum gives it (Shewchuk 1997,
// "Adaptive precision floating-point arithmetic"); NaN where a term or a sum on the way is not finite.
inline double sum_exactly(uintptr_t address, long n) {
    const auto *x = reinterpret_cast<const double *>(address);
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

} // namespace placerl::quantization
