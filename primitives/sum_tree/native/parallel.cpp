#include "sum_tree/native/parallel.hpp"

#include <algorithm>

namespace placerl::sum_tree {

bool has_openmp() {
#if defined(_OPENMP)
    return true;
#else
    return false;
#endif
}

void run_parts(int threads, int64_t count, const Part &part) {
    const int parts = int(std::min<int64_t>(threads, count / items_per_thread));
    const int64_t size = (count - 1) / parts + 1;
#if defined(_OPENMP)
#pragma omp parallel for num_threads(parts) schedule(static, 1)
#endif
    for (int number = 0; number < parts; ++number) {
        const int64_t first = number * size;
        if (first < count)
            part(first, std::min(size, count - first), number);
    }
}

} // namespace placerl::sum_tree
