// Many threads insert, sample, gather, update and read priorities at once;
// every item carries a checksum over all of its columns, so that one byte of
// another item shows. To be run under the sanitizers: `make sanitize`.
#include <array>
#include <cmath>
#include <thread>

#include "check.hpp"
#include "replay/native/concurrent_replay.hpp"

using placerl::replay::Column;
using placerl::replay::ConcurrentReplay;

namespace {

constexpr size_t columns = 4;
constexpr std::array<size_t, columns> row_bytes{8, 100, 1, 4};

uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// A batch of rows, column by column. Row b holds a number, bytes that follow from it, and its checksum.
struct Batch {
    std::array<std::vector<char>, columns> rows;
    std::array<char *, columns> out;
    std::array<const char *, columns> in;

    explicit Batch(int64_t count) {
        for (size_t c = 0; c < columns; ++c) {
            rows[c].resize(size_t(count) * row_bytes[c]);
            out[c] = rows[c].data();
            in[c] = rows[c].data();
        }
    }

    void fill(int64_t b, uint64_t number) {
        std::memcpy(out[0] + b * 8, &number, 8);
        for (size_t i = 0; i < 100; ++i)
            out[1][size_t(b) * 100 + i] = char(mixed(number + i));
        out[2][b] = char(mixed(number * 3));
        const uint32_t sum = checksum(b);
        std::memcpy(out[3] + b * 4, &sum, 4);
    }

    uint32_t checksum(int64_t b) const {
        uint32_t sum = 2166136261u;
        for (size_t c = 0; c + 1 < columns; ++c)
            for (size_t i = 0; i < row_bytes[c]; ++i)
                sum = (sum ^ uint8_t(out[c][size_t(b) * row_bytes[c] + i])) * 16777619u;
        return sum;
    }

    bool whole(int64_t b) const {
        uint32_t stored;
        std::memcpy(&stored, out[3] + b * 4, 4);
        return stored == checksum(b);
    }
};

struct Storage {
    std::array<std::vector<char>, columns> rows;

    explicit Storage(int64_t capacity) {
        for (size_t c = 0; c < columns; ++c)
            rows[c].resize(size_t(capacity) * row_bytes[c]);
    }
    std::vector<Column> view() {
        std::vector<Column> all;
        for (size_t c = 0; c < columns; ++c)
            all.push_back({rows[c].data(), row_bytes[c]});
        return all;
    }
};

const ConcurrentReplay::Options options{0.6, 1e-6, true};

// Each thread's own random numbers.
struct Random {
    uint64_t state;
    uint64_t next() { return mixed(state += 0x9e3779b97f4a7c15u); }
    int64_t below(int64_t limit) { return int64_t(next() % uint64_t(limit)); }
};

void stress(int64_t capacity, int64_t insert_max, int64_t batch_size, int rounds) {
    Storage storage(capacity);
    ConcurrentReplay replay(capacity, storage.view(), 4, options);
    std::atomic<bool> stop{false};
    std::atomic<int64_t> sampled{0};

    const auto insert = [&](uint64_t seed) {
        Random random{seed};
        Batch batch(insert_max);
        for (int round = 0; round < rounds; ++round) {
            const int64_t count = 1 + random.below(insert_max);
            for (int64_t b = 0; b < count; ++b)
                batch.fill(b, random.next());
            std::vector<double> priorities;
            for (int64_t b = 0; b < count; ++b)
                priorities.push_back(0.5 + double(b));
            const int64_t first =
                replay.insert(batch.in.data(), count, random.below(2) ? priorities.data() : nullptr);
            CHECK(first >= 0 && first < capacity);
        }
    };
    const auto sample = [&](uint64_t seed) {
        Random random{seed};
        Batch batch(batch_size);
        std::vector<int64_t> indices(static_cast<size_t>(batch_size));
        std::vector<float> weights(static_cast<size_t>(batch_size));
        std::vector<double> priorities(static_cast<size_t>(batch_size));
        while (!stop) {
            if (!replay.sample({{random.next(), random.next()}}, random.below(2), batch_size, 0.4,
                               indices.data(), weights.data(), batch.out.data()))
                continue;
            ++sampled;
            float most = 0;
            for (int64_t b = 0; b < batch_size; ++b) {
                CHECK(batch.whole(b));
                CHECK(indices[size_t(b)] >= 0 && indices[size_t(b)] < capacity);
                CHECK(weights[size_t(b)] > 0 && weights[size_t(b)] <= 1);
                most = std::max(most, weights[size_t(b)]);
                priorities[size_t(b)] = double(random.below(1000)) / 100;
            }
            CHECK(most == 1);
            replay.update(indices.data(), priorities.data(), batch_size);
        }
    };
    const auto gather = [&](uint64_t seed) {
        Random random{seed};
        Batch batch(batch_size);
        std::vector<int64_t> rows(static_cast<size_t>(batch_size));
        std::vector<double> priorities(static_cast<size_t>(batch_size));
        while (!stop) {
            const int64_t taken = replay.taken();
            if (!taken)
                continue;
            for (auto &row : rows)
                row = random.below(taken);
            replay.gather_rows(rows.data(), batch_size, batch.out.data());
            for (int64_t b = 0; b < batch_size; ++b)
                CHECK(batch.whole(b));
            replay.priorities(rows.data(), batch_size, priorities.data());
            for (const double priority : priorities)
                CHECK(priority >= 0 && std::isfinite(priority));
        }
    };
    const auto freeze = [&] {
        Batch all(capacity);
        std::vector<int64_t> rows(static_cast<size_t>(capacity));
        while (!stop) {
            replay.freeze();
            const int64_t size = replay.size(), cursor = replay.cursor();
            CHECK(size == replay.taken());
            for (int64_t row = 0; row < size; ++row)
                rows[size_t(row)] = row;
            if (size)
                replay.gather_rows(rows.data(), size, all.out.data());
            for (int64_t row = 0; row < size; ++row)
                CHECK(all.whole(row));
            CHECK(replay.size() == size && replay.cursor() == cursor);
            replay.thaw();
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    };

    std::vector<std::thread> writers, others;
    for (uint64_t i = 1; i <= 3; ++i)
        writers.emplace_back(insert, i << 32);
    for (uint64_t i = 4; i <= 5; ++i)
        others.emplace_back(sample, i << 32);
    others.emplace_back(gather, uint64_t(6) << 32);
    others.emplace_back(freeze);
    for (auto &thread : writers)
        thread.join();
    while (sampled < 10)
        std::this_thread::yield();
    stop = true;
    for (auto &thread : others)
        thread.join();

    CHECK(replay.size() == capacity && replay.taken() == capacity);
    std::printf("capacity %ld, inserts of up to %ld, batches of %ld: %ld samples whole\n", long(capacity),
                long(insert_max), long(batch_size), long(sampled));
}

// What one thread sees is a plain ring: rows in order, the oldest replaced, zero never sampled.
void alone() {
    const int64_t capacity = 5;
    Storage storage(capacity);
    ConcurrentReplay replay(capacity, storage.view(), 16, options);
    Batch batch(5);
    std::array<int64_t, 5> indices{};
    std::array<float, 5> weights{};
    CHECK(!replay.sample({{1, 2}}, false, 1, 1, indices.data(), weights.data(), batch.out.data()));
    for (int64_t b = 0; b < 5; ++b)
        batch.fill(b, uint64_t(b));
    CHECK(replay.insert(batch.in.data(), 3, nullptr) == 0);
    CHECK(replay.insert(batch.in.data(), 4, nullptr) == 3);
    CHECK(replay.size() == 5 && replay.cursor() == 2);
    const std::array<int64_t, 2> rows{0, 2};
    const std::array<double, 2> priorities{9, 0};
    replay.update(rows.data(), priorities.data(), 2);
    CHECK(replay.max_priority() == 9);
    for (uint64_t seed = 0; seed < 200; ++seed) {
        CHECK(replay.sample({{seed, 2}}, false, 5, 1, indices.data(), weights.data(), batch.out.data()));
        for (const int64_t row : indices)
            CHECK(row != 2);
    }
    std::array<double, 1> got{};
    const std::array<int64_t, 1> next{2};
    for (int64_t b = 0; b < 5; ++b)
        batch.fill(b, 77);
    CHECK(replay.insert(batch.in.data(), 1, nullptr) == 2);
    replay.priorities(next.data(), 1, got.data());
    CHECK(got[0] == 9); // the maximum so far
    for (const int64_t count : {-1, 0, 6}) {
        bool refused = false;
        try {
            replay.insert(batch.in.data(), count, nullptr);
        } catch (const std::invalid_argument &error) {
            refused = std::string(error.what()).ends_with(" items; allowed: 1 to 5");
        }
        CHECK(refused && replay.cursor() == 3 && replay.size() == 5);
    }
}

// Rows that were claimed since a sample keep the priorities of their new items, around the end of the ring
// too.
void late_priorities_spare_new_items() {
    constexpr int64_t capacity = 5;
    for (int64_t later = 0; later <= 2 * capacity; ++later) {
        Storage storage(capacity);
        ConcurrentReplay replay(capacity, storage.view(), 16, options);
        Batch batch(capacity);
        for (int64_t b = 0; b < capacity; ++b)
            batch.fill(b, uint64_t(b));
        replay.insert(batch.in.data(), capacity, nullptr);
        replay.insert(batch.in.data(), 3, nullptr); // the next row is 3
        std::array<int64_t, 4> drawn{};
        std::array<float, 4> weights{};
        int64_t claimed = 0;
        CHECK(replay.sample({{1, 2}}, false, 4, 1, drawn.data(), weights.data(), batch.out.data(), &claimed));
        for (int64_t i = 0; i < later; ++i)
            replay.insert(batch.in.data(), 1, nullptr);
        const std::array<int64_t, capacity> rows{0, 1, 2, 3, 4};
        const std::array<double, capacity> late{9, 9, 9, 9, 9};
        replay.update(rows.data(), late.data(), capacity, claimed);
        std::array<double, capacity> found{};
        replay.priorities(rows.data(), capacity, found.data());
        for (int64_t row = 0; row < capacity; ++row)
            CHECK(found[size_t(row)] == ((row + 2) % capacity < later ? 1 : 9));
    }
}

// Of two freezes that overlap, the first `thaw` lets no insert begin: the other snapshot is still being
// written.
void overlapping_freezes() {
    Storage storage(4);
    ConcurrentReplay replay(4, storage.view(), 4, options);
    Batch batch(1);
    batch.fill(0, 1);
    replay.freeze();
    replay.freeze();
    replay.thaw();
    std::thread writer([&] { replay.insert(batch.in.data(), 1, nullptr); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(replay.frozen() && replay.cursor() == 0);
    replay.thaw();
    writer.join();
    CHECK(!replay.frozen() && replay.cursor() == 1);
}

} // namespace

int main() {
    alone();
    late_priorities_spare_new_items();
    overlapping_freezes();
    stress(64, 8, 16, 8000);
    stress(1000, 50, 64, 2000);
    stress(7, 7, 5, 5000); // writers lap each other
    stress(1, 1, 3, 5000);
    return 0;
}
