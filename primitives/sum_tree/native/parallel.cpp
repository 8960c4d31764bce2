#include "sum_tree/native/parallel.hpp"

#include <algorithm>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace placerl::sum_tree {
namespace {

// OpenMP's library is built without ThreadSanitizer, which therefore does not see that a parallel region
// hands the caller's memory to its threads, and theirs back at its end. A handover says so; elsewhere it is
// nothing.
class Handover {
  public:
    void give() {
#if defined(__SANITIZE_THREAD__)
        __tsan_release(this);
#endif
    }
    void take() {
#if defined(__SANITIZE_THREAD__)
        __tsan_acquire(this);
#endif
    }
};

} // namespace

bool has_openmp() {
#if defined(_OPENMP)
    return true;
#else
    return false;
#endif
}

// Not instrumented itself, since OpenMP passes the region's own variables before a part can `take`.
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
void run_parts(int threads, int64_t count, const Part &part) {
    const int parts = int(std::min<int64_t>(threads, count / items_per_thread));
    const int64_t size = (count - 1) / parts + 1;
    Handover begin, end;
    begin.give();
#if defined(_OPENMP)
#pragma omp parallel for num_threads(parts) schedule(static, 1)
#endif
    for (int number = 0; number < parts; ++number) {
        begin.take();
        const int64_t first = number * size;
        if (first < count)
            part(first, std::min(size, count - first), number);
        end.give();
    }
    end.take();
}

} // namespace placerl::sum_tree
