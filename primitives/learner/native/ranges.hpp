// How an operation's work is dealt out to threads.
#pragma once

#include <algorithm>
#include <vector>

namespace placerl::learner {

struct Range {
    long first, size;
};

// 0 .. count - 1 in at most `parts` ranges of about the same size, each of at least `unit`, all but the last
// a multiple of it. One range where there is too little for two.
inline std::vector<Range> ranges(long count, long unit, int parts) {
    const long number = std::max(1L, std::min<long>(parts, count / unit));
    const long units = (count + unit - 1) / unit;
    std::vector<Range> made;
    for (long i = 0; i < number; ++i) {
        const long first = units * i / number * unit;
        const long end = std::min(count, units * (i + 1) / number * unit);
        made.push_back({first, end - first});
    }
    return made;
}

} // namespace placerl::learner
