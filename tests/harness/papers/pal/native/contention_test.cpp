// Threads on one replay in every way of sharing it: items stay
// whole. To be run under the sanitizers: `make sanitize`.
#include "check.hpp"
#include "harness/papers/pal/native/contention.hpp"

using namespace placerl::replay;

namespace {

const std::vector<size_t> row_bytes{24, 12, 1};

// A row of two items' bytes is found out.
void recognises_torn_rows() {
    Rows rows(row_bytes, 2);
    rows.write(0, 1);
    rows.write(1, 2);
    CHECK(rows.whole(0) && rows.whole(1));
    std::memcpy(rows.out()[1], rows.out()[1] + 12, 4);
    CHECK(!rows.whole(0) && rows.whole(1));
}

// A ring so small that writers and readers meet all the time.
void stays_whole(const char *sharing, int threads) {
    constexpr int64_t capacity = 96;
    Contention contention(sharing, capacity, row_bytes, 4);
    CHECK(contention.size() == capacity);
    const TurnResult result = contention.run({threads, 16, 8, 0.2, 1, true});
    CHECK(result.rounds >= threads);
    CHECK(result.torn == 0);
    CHECK(contention.size() == capacity);
}

} // namespace

int main() {
    recognises_torn_rows();
    for (const char *sharing : {"two locks", "one lock", "one lock, binary tree", "owner thread"})
        for (const int threads : {1, 4})
            stays_whole(sharing, threads);
}
