// What memory alone asks of a descent: its loads, one a level, with no work between them.
#pragma once

#include <cstdint>

#include "sum_tree/native/kary_tree.hpp"

namespace placerl::sum_tree {

// Loads, for each leaf, one value from each node on its way from the root. `Dependent`: as in a descent, the
// address of each load waits for the load before; else none waits. Returns a sum, so that the loads are made.
template <bool Dependent, typename Real>
Real load_paths(const View<Real> &view, const int64_t *leaves, int64_t count) {
    int64_t below[max_levels]; // leaves below a value of each level
    below[view.levels - 1] = 1;
    for (int depth = view.levels - 1; depth > 0; --depth)
        below[depth - 1] = below[depth] * view.fanout;
    constexpr int in_flight = 64; // as in a descent: enough that no load waits for another prefix's
    Real sum = 0;
    for (int64_t start = 0; start < count; start += in_flight) {
        const int size = int(count - start < in_flight ? count - start : in_flight);
        int64_t waits[in_flight] = {};
        for (int depth = 0; depth < view.levels; ++depth) {
            const Level<Real> &level = view.level[depth];
            const Level<Real> &next = view.level[depth + 1]; // all null below the leaves
            const Real *values = level.before ? level.before : level.value;
            const Real *next_values = next.before ? next.before : next.value;
            const int shift = view.shift * (view.levels - 1 - depth);
            const auto position = [&](int64_t leaf) {
                return view.shift >= 0 ? leaf >> shift : leaf / below[depth];
            };
            for (int b = 0; b < size; ++b) {
                const int64_t at = position(leaves[start + b]);
                if constexpr (Dependent) {
                    const Real value = values[at + waits[b]];
                    waits[b] = int64_t(value < 0); // 0, as no sum is negative
                    if (next_values)               // the node below: the prefetch, too, waits
                        __builtin_prefetch(next_values + (at + waits[b]) * view.fanout);
                    sum += value;
                } else {
                    sum += values[at];
                }
            }
        }
    }
    return sum;
}

} // namespace placerl::sum_tree
