// A batch cut into parts, one a thread. In a translation unit
// of its own, the only one that is built with OpenMP.
#pragma once

#include <cstdint>
#include <functional>

namespace placerl::sum_tree {

// Fewer items than this a thread are not worth waking it.
constexpr int64_t items_per_thread = 512;

// Whether this was built with OpenMP.
bool has_openmp();

using Part = std::function<void(int64_t first, int64_t size, int part)>;

void run_parts(int threads, int64_t count, const Part &part);

// part(first, size, number) over [0, count), at once in the caller where one thread is enough.
template <typename Body>
void in_parallel(int threads, int64_t count, const Body &body) {
    if (threads == 1 || count < 2 * items_per_thread)
        body(0, count, 0);
    else
        run_parts(threads, count, body);
}

} // namespace placerl::sum_tree
