// How a product of integers is done with the fewest instructions: in how many digits of at most 16 bits each
// operand goes, or with multipliers of 32 bits. Any way gives the same, exact sums.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "quantization/native/kernels.hpp"

namespace placerl::quantization {

// The range of an operand's integers.
struct Extremes {
    int32_t low = std::numeric_limits<int32_t>::max(), high = std::numeric_limits<int32_t>::min();

    void widen(const Extremes &other) { low = std::min(low, other.low), high = std::max(high, other.high); }
    int64_t magnitude() const { return std::max({int64_t(0), -int64_t(low), int64_t(high)}); }
    // What brings all of them into 16 bits, where anything does and they are not there already.
    int32_t offset() const {
        const bool there = low >= -32768 && high <= 32767, can_be = int64_t(high) - low <= 65535;
        return !there && can_be ? static_cast<int32_t>((int64_t(low) + high + 1) / 2) : 0;
    }
    // Of the digits when there are `count` of them; 0 where they do not fit 16 bits.
    int bits(int count) const {
        if (count == 1)
            return int64_t(low) - offset() >= -32768 && int64_t(high) - offset() <= 32767 ? 16 : 0;
        if (offset())
            return 0; // one digit does
        const int width = 1 + std::bit_width(static_cast<uint64_t>(magnitude()));
        const int each = (width + count - 1) / count;
        return each >= 2 && digit(count, each, count - 1) <= 32767 ? each : 0;
    }
    // The largest magnitude of digit i, offset included.
    int64_t digit(int count, int bits, int i) const {
        if (count == 1)
            return magnitude();
        return i + 1 < count ? int64_t(1) << (bits - 1) : (magnitude() >> (bits * i)) + 1;
    }
};

struct DigitPlan {
    int a = 0, b = 0; // digits; 0 where multipliers of 32 bits do it
    int a_bits = 0, b_bits = 0;
    // Of digit i of A and j of B: so many products always fit the sums.
    int64_t block[Digits::MOST][Digits::MOST] = {};
};

// What a block's sums may reach: lower halves that stay behind take up to 2^16 of 32 bits.
constexpr int64_t LARGEST_BLOCK_SUM = 0x7ffeffff;

// The cheapest way, counted in 16-bit multiply-adds of a pair: multipliers of 32 bits take as long as WIDE of
// them (8 of their products a cycle with an addition each, against 32), moving the upper half of a sum as
// long as MOVE, adding it up in the end as END.
inline DigitPlan plan_digits(const Extremes &a, const Extremes &b, int depth) {
    constexpr double WIDE = 4.5, MOVE = 2.5, END = 6;
    constexpr int LEAST_BLOCK = 2, MOST_DEPTH = 1 << 15;
    DigitPlan best;
    // The carriers of sums hold 53 bits exactly; rounding takes up to two of them.
    if (depth > MOST_DEPTH ||
        double(a.magnitude()) * double(b.magnitude()) * depth > double(int64_t(1) << 51))
        return best;
    const int pairs = (depth + 1) / 2;
    double least = WIDE * pairs;
    for (int m = 1; m <= Digits::MOST; ++m)
        for (int n = 1; n <= Digits::MOST; ++n) {
            DigitPlan plan{m, n, a.bits(m), b.bits(n), {}};
            if (!plan.a_bits || !plan.b_bits)
                continue;
            double cost = 0;
            for (int i = 0; i < m; ++i)
                for (int j = 0; j < n; ++j) {
                    const int64_t widest =
                        std::max<int64_t>(1, a.digit(m, plan.a_bits, i) * b.digit(n, plan.b_bits, j));
                    const int64_t block = LARGEST_BLOCK_SUM / widest;
                    plan.block[i][j] = block;
                    if (block < LEAST_BLOCK)
                        cost = least + 1;
                    else
                        cost += pairs + (block < depth ? MOVE * (depth / block) + END : 0);
                }
            if (cost < least)
                best = plan, least = cost;
        }
    return best;
}

// Where blocks of pairs end, `block` products always fitting one. `sums`, where there are any, hold the
// largest sum of magnitudes of one operand over each SPAN of the depth, and `other` the largest magnitude of
// the other's: what is there bounds a block more closely than what could be.
inline void plan_blocks(std::vector<int> &ends, int depth, int64_t block, const std::vector<int64_t> &sums,
                        int64_t other) {
    const int pairs = (depth + 1) / 2;
    ends.clear();
    for (int start = 0; start < pairs;) {
        int end = start + static_cast<int>(std::min<int64_t>(block / 2, pairs));
        int64_t total = 0;
        for (size_t span = static_cast<size_t>(start) / (SPAN / 2); span < sums.size(); ++span) {
            total += sums[span] * other;
            if (total > LARGEST_BLOCK_SUM)
                break;
            end = std::max(end, static_cast<int>(span + 1) * (SPAN / 2));
        }
        start = std::min(end, pairs);
        ends.push_back(start);
    }
}

} // namespace placerl::quantization
