// Prioritised replay that many threads use at once: lazy writing and two locks (PAL IV-D, Algorithm 3).
//
// Guarantees, whatever the threads do:
//   - an item is sampled only while it is whole: its priority is 0 from before the first byte of its row
//   changes
//     until after the last, so no descent can reach it; and priorities that learners send for a row being
//     written are dropped, since they belong to the item that is going;
//   - a gather returns whole items only, the very ones that were sampled: the rows of a sample are noted
//   under
//     the tree lock, and a writer that takes one of them waits until that gather has finished;
//   - weights come from the priorities and the total at the moment of the sample.
// Data are never copied under a lock. A writer waits for a gather only when both want the same row.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "sum_tree/native/kary_tree.hpp"

namespace placerl::replay {

// One column of the storage: `capacity` rows of `row_bytes` each, owned elsewhere.
struct Column {
    char *rows;
    size_t row_bytes;
};

// Shown by a thread while it reads or writes rows, so that others can wait for it. A stay is numbered:
// whoever waits for one is not held up by the next.
class Stay {
  public:
    bool idle() const { return number_.load(std::memory_order_acquire) == 0; }
    uint32_t number() const { return number_.load(std::memory_order_acquire); }
    void begin(uint32_t number) { number_.store(number, std::memory_order_relaxed); }
    void end() {
        number_.store(0, std::memory_order_release);
        number_.notify_all();
    }
    void wait_for_end_of(uint32_t number) const {
        while (number_.load(std::memory_order_acquire) == number)
            number_.wait(number, std::memory_order_acquire);
    }

  private:
    std::atomic<uint32_t> number_{0};
};

// `count` rows from `first` on, around the end of a ring of `capacity`.
struct Span {
    int64_t first = 0, count = 0, capacity = 1;

    int64_t row(int64_t offset) const {
        const int64_t at = first + offset;
        return at < capacity ? at : at - capacity;
    }
    bool has(int64_t row) const {
        const int64_t offset = row - first;
        return (offset < 0 ? offset + capacity : offset) < count;
    }
    bool meets(const Span &other) const {
        return count && other.count && (has(other.first) || other.has(first));
    }
};

struct Read {
    Stay stay;
    std::vector<int64_t> rows;
    std::vector<double> priorities;
};

struct Write {
    Stay stay;
    Span span;
    std::vector<int64_t> rows;
    std::vector<double> priorities;
};

// What `sample` says where there is nothing to draw: `EMPTY` of primitives/replay/base.py, word for word.
inline std::invalid_argument empty_replay() {
    return std::invalid_argument("sample: found no item to draw; allowed: at least one in the replay buffer");
}

// What one thread waits for: a stay and its number at the time.
struct Awaited {
    const Stay *stay;
    uint32_t number;
};

inline void wait_for(const std::vector<Awaited> &all) {
    for (const Awaited &awaited : all)
        awaited.stay->wait_for_end_of(awaited.number);
}

// Importance weights (PAL Algorithm 1, line 15), from priorities at the time of
// the sample. Normalised, the largest of the batch is 1 (Schaul et al. 2015,
// section 3.4), and the total and the number of items cancel out, so that nothing overflows.
inline void importance_weights(const double *priorities, int64_t count, double total, int64_t items,
                               double beta, bool normalise, float *weights) {
    const auto [least, most] = std::minmax_element(priorities, priorities + count);
    const double scale = normalise ? *least : total / double(items);
    // The power in single precision takes half the time, but the rounding of ratio and exponent grows with
    // both: here it stays below 4e-7 of the weight.
    if (beta <= 1 && scale / *most >= 0x1p-12 && scale / *least <= 0x1p12)
        for (int64_t b = 0; b < count; ++b)
            weights[b] = std::pow(float(scale / priorities[b]), float(beta));
    else
        for (int64_t b = 0; b < count; ++b)
            weights[b] = float(std::pow(scale / priorities[b], beta));
}

inline void gather(const Column &column, const int64_t *rows, int64_t count, char *out) {
    // Far enough that main memory is never waited for: 8 rows
    // ahead took three times as long (2048 rows of 2^20).
    constexpr int64_t ahead = 64;
    const auto copy = [&](auto row_bytes) {
        const auto prefetch = [&](int64_t b) {
            const char *row = column.rows + size_t(rows[b]) * row_bytes;
            __builtin_prefetch(row);
            if (row_bytes > 8)
                __builtin_prefetch(row + row_bytes - 1); // a short row may lie on two cache lines
        };
        for (int64_t b = 0; b < std::min(ahead, count); ++b)
            prefetch(b);
        for (int64_t b = 0; b < count; ++b) {
            if (b + ahead < count)
                prefetch(b + ahead);
            std::memcpy(out + size_t(b) * row_bytes, column.rows + size_t(rows[b]) * row_bytes, row_bytes);
        }
    };
    // A known size turns the copy into one load and one store.
    switch (column.row_bytes) {
    case 1:
        return copy(std::integral_constant<size_t, 1>{});
    case 4:
        return copy(std::integral_constant<size_t, 4>{});
    case 8:
        return copy(std::integral_constant<size_t, 8>{});
    default:
        return copy(column.row_bytes);
    }
}

// The smallest normal number of the tree: a priority that would round to 0 could never be drawn.
constexpr double priority_min = std::numeric_limits<float>::min();

class ConcurrentReplay {
  public:
    using Tree = sum_tree::KaryTree<float>;

    struct Options {
        double alpha, epsilon;
        bool normalise;
        int64_t running_sums_max = sum_tree::Layout{}.running_sums_max; // of the tree
    };

    ConcurrentReplay(int64_t capacity, std::vector<Column> columns, int fanout, Options options)
        : capacity_(capacity), columns_(std::move(columns)), options_(options),
          tree_(capacity, fanout, {true, options.running_sums_max}) {}

    int64_t capacity() const { return capacity_; }
    const std::vector<Column> &columns() const { return columns_; }
    // Items that are whole, so that they can be sampled.
    int64_t size() const { return size_.load(std::memory_order_relaxed); }
    // Rows that have been taken at least once: the range of valid indices.
    int64_t taken() const { return taken_.load(std::memory_order_acquire); }
    double max_priority() const { return max_priority_.load(std::memory_order_relaxed); }

    // (|TD error| + epsilon) ** alpha, but at least `priority_min`; NaN stays NaN.
    double priority_of(double td_error) const {
        const double base = std::abs(td_error) + options_.epsilon;
        // In single precision, as the tree keeps it, where its rounding stays below 6e-7 of the priority.
        const bool moderate = options_.alpha <= 1 && base >= 0x1p-20 && base <= 0x1p20;
        const double priority =
            moderate ? double(std::pow(float(base), float(options_.alpha))) : std::pow(base, options_.alpha);
        return std::max(priority, priority_min);
    }

    // Inserts `count` in [1, capacity] items; items[c] holds the rows of column c. `priorities` may be null:
    // then each takes the maximum so far. Returns the first row; the others follow around the ring. Throws
    // std::invalid_argument for another count, before anything is written.
    int64_t insert(const char *const *items, int64_t count, const double *priorities) {
        if (count < 1 || count > capacity_)
            throw std::invalid_argument("insert: found " + std::to_string(count) + " items; allowed: 1 to " +
                                        std::to_string(capacity_));
        Write &write = claim(count);
        const Span span = write.span;
        const int64_t until_end = std::min(count, capacity_ - span.first);
        for (size_t c = 0; c < columns_.size(); ++c) {
            const auto [rows, row_bytes] = columns_[c];
            std::memcpy(rows + size_t(span.first) * row_bytes, items[c], size_t(until_end) * row_bytes);
            std::memcpy(rows, items[c] + size_t(until_end) * row_bytes,
                        size_t(count - until_end) * row_bytes);
        }
        publish(write, priorities);
        return span.first;
    }

    // Draws `count` >= 1 items with replacement and copies them to
    // out[c], one a column; `claimed` gets what `update` asks for. False when there are none.
    bool sample(sum_tree::Seed seed, bool stratified, int64_t count, double beta, int64_t *indices,
                float *weights, char *const *out, int64_t *claimed = nullptr) {
        std::unique_lock tree_lock(tree_mutex_);
        while (!(tree_.total() > 0)) {
            const std::vector<Awaited> writers = other_writes(nullptr);
            if (writers.empty())
                return false;
            tree_lock.unlock();
            wait_for(writers);
            tree_lock.lock();
        }
        Read &read = begin_read(count);
        tree_.sample(seed, stratified, read.rows.data(), count);
        // No leaf changes while the tree lock is held, so the leaf lock is not needed to read them.
        for (int64_t b = 0; b < count; ++b)
            read.priorities[b] = tree_.priorities()[read.rows[b]];
        const double total = tree_.total();
        const int64_t items = size();
        if (claimed)
            *claimed = claimed_;
        tree_lock.unlock();

        copy_out(read, count, out);
        std::memcpy(indices, read.rows.data(), size_t(count) * sizeof(int64_t));
        importance_weights(read.priorities.data(), count, total, items, beta, options_.normalise, weights);
        read.stay.end();
        return true;
    }

    // Copies any rows in [0, taken) out; waits for those that are being written.
    void gather_rows(const int64_t *rows, int64_t count, char *const *out) {
        std::unique_lock tree_lock(tree_mutex_);
        for (;;) {
            std::vector<Awaited> writers;
            for (const auto &write : writes_)
                if (!write->stay.idle() &&
                    std::any_of(rows, rows + count, [&](int64_t row) { return write->span.has(row); }))
                    writers.push_back({&write->stay, write->stay.number()});
            if (writers.empty())
                break;
            tree_lock.unlock();
            wait_for(writers);
            tree_lock.lock();
        }
        Read &read = begin_read(count);
        std::copy(rows, rows + count, read.rows.begin());
        tree_lock.unlock();
        copy_out(read, count, out);
        read.stay.end();
    }

    // Sets the priorities of rows in [0, taken), of a repeated row the last; rows being written keep theirs,
    // and so do those that were claimed by an insertion since the sample that gave `claimed`: they hold
    // other items. Arguments are checked by the caller.
    void update(const int64_t *rows, const double *priorities, int64_t count, int64_t claimed = -1) {
        std::lock_guard tree_lock(tree_mutex_);
        const int64_t since = claimed < 0 ? 0 : claimed_ - claimed;
        if (since || any_write()) {
            kept_rows_.clear();
            kept_priorities_.clear();
            // The row that was claimed last has age 0.
            const auto age = [&](int64_t row) { return cursor_ - 1 - row + (row < cursor_ ? 0 : capacity_); };
            for (int64_t b = 0; b < count; ++b)
                if (age(rows[b]) >= since && !being_written(rows[b])) {
                    kept_rows_.push_back(rows[b]);
                    kept_priorities_.push_back(priorities[b]);
                }
            rows = kept_rows_.data();
            priorities = kept_priorities_.data();
            count = int64_t(kept_rows_.size());
        }
        if (!count)
            return;
        set(rows, priorities, count);
        raise_max_priority(*std::max_element(priorities, priorities + count));
    }

    // PAL's priority retrieval: runs in parallel with the update of the upper levels.
    void priorities(const int64_t *rows, int64_t count, double *out) const {
        std::lock_guard leaf_lock(leaf_mutex_);
        for (int64_t b = 0; b < count; ++b)
            out[b] = tree_.priorities()[rows[b]];
    }

    // From here to as many calls of `thaw`, no row changes: inserts wait. For snapshots.
    void freeze() {
        hold_inserts();
        wait_for_inserts();
    }
    void thaw() {
        if (frozen_.fetch_sub(1) == 1)
            frozen_.notify_all();
    }
    bool frozen() const { return frozen_.load(); }
    // The two parts of `freeze`: first no insert begins any more, without a wait; then those at work finish.
    void hold_inserts() { frozen_.fetch_add(1); }
    void wait_for_inserts() {
        std::unique_lock tree_lock(tree_mutex_);
        const std::vector<Awaited> writers = other_writes(nullptr);
        tree_lock.unlock();
        wait_for(writers);
    }
    // The row that the next item takes.
    int64_t cursor() const {
        std::lock_guard tree_lock(tree_mutex_);
        return cursor_;
    }

    // Takes over rows 0 to size-1, already in the columns, with
    // `capacity` priorities. No other thread is in here.
    void restore(int64_t size, int64_t cursor, double max_priority, const double *priorities) {
        std::vector<int64_t> rows(static_cast<size_t>(capacity_));
        for (int64_t row = 0; row < capacity_; ++row)
            rows[size_t(row)] = row;
        std::lock_guard tree_lock(tree_mutex_);
        set(rows.data(), priorities, capacity_);
        cursor_ = cursor;
        claimed_ += capacity_; // what was sampled before is gone
        size_ = size;
        taken_ = size;
        max_priority_ = max_priority;
    }

  private:
    // Takes the next rows, out of reach of samplers and gathers (Algorithm 3, line 18).
    Write &claim(int64_t count) {
        std::unique_lock tree_lock(tree_mutex_);
        while (const int32_t snapshots = frozen_.load()) {
            tree_lock.unlock();
            frozen_.wait(snapshots);
            tree_lock.lock();
        }
        Write &write = idle_one(writes_);
        write.span = {cursor_, count, capacity_};
        write.rows.resize(size_t(count));
        write.priorities.assign(size_t(count), 0.0);
        for (int64_t i = 0; i < count; ++i)
            write.rows[size_t(i)] = write.span.row(i);
        write.stay.begin(next_number());
        cursor_ = write.span.row(count == capacity_ ? 0 : count);
        claimed_ += count;
        // Taken rows come after the fresh ones in the span, since the ring was filled in order.
        const int64_t taken_before = taken_.load(std::memory_order_relaxed);
        const int64_t fresh = std::min(count, capacity_ - taken_before);
        taken_.store(taken_before + fresh, std::memory_order_release);

        // A writer that was lapped finishes first: it will set the priorities of these rows.
        if (const std::vector<Awaited> lapped = other_writes(&write); !lapped.empty()) {
            tree_lock.unlock();
            wait_for(lapped);
            tree_lock.lock();
        }
        if (fresh < count) {
            set(write.rows.data() + fresh, write.priorities.data(), count - fresh);
            size_.store(size() - (count - fresh), std::memory_order_relaxed);
            std::vector<Awaited> readers;
            for (const auto &read : reads_)
                if (const uint32_t number = read->stay.number(); number && reads_any(*read, write.span))
                    readers.push_back({&read->stay, number});
            tree_lock.unlock();
            wait_for(readers);
        }
        return write;
    }

    // Makes rows that are whole again reachable (Algorithm 3, line 20).
    void publish(Write &write, const double *priorities) {
        const int64_t count = write.span.count;
        std::lock_guard tree_lock(tree_mutex_);
        if (priorities)
            raise_max_priority(*std::max_element(priorities, priorities + count));
        else
            std::fill(write.priorities.begin(), write.priorities.end(), max_priority());
        set(write.rows.data(), priorities ? priorities : write.priorities.data(), count);
        size_.store(size() + count, std::memory_order_relaxed);
        write.stay.end();
    }

    // Algorithm 3, PRIORITYUPDATE; the tree lock is held.
    void set(const int64_t *rows, const double *priorities, int64_t count) {
        std::unique_lock leaf_lock(leaf_mutex_);
        tree_.update(rows, priorities, count, sum_tree::Step::leaves);
        leaf_lock.unlock();
        tree_.update(rows, priorities, count, sum_tree::Step::sums);
    }

    void raise_max_priority(double priority) {
        max_priority_.store(std::max(max_priority(), priority), std::memory_order_relaxed);
    }

    Read &begin_read(int64_t count) {
        Read &read = idle_one(reads_);
        read.rows.resize(size_t(count));
        read.priorities.resize(size_t(count));
        read.stay.begin(next_number());
        return read;
    }

    void copy_out(const Read &read, int64_t count, char *const *out) const {
        for (size_t c = 0; c < columns_.size(); ++c)
            gather(columns_[c], read.rows.data(), count, out[c]);
    }

    template <typename Kind>
    static Kind &idle_one(std::vector<std::unique_ptr<Kind>> &all) {
        for (auto &one : all)
            if (one->stay.idle())
                return *one;
        return *all.emplace_back(std::make_unique<Kind>());
    }

    uint32_t next_number() { return ++last_number_ ? last_number_ : ++last_number_; }

    bool any_write() const {
        return std::any_of(writes_.begin(), writes_.end(),
                           [](const auto &write) { return !write->stay.idle(); });
    }
    bool being_written(int64_t row) const {
        return std::any_of(writes_.begin(), writes_.end(),
                           [row](const auto &write) { return !write->stay.idle() && write->span.has(row); });
    }
    // Writers at work: all, or those whose rows `write` shares.
    std::vector<Awaited> other_writes(const Write *write) const {
        std::vector<Awaited> found;
        for (const auto &other : writes_)
            if (other.get() != write && (!write || other->span.meets(write->span)))
                if (const uint32_t number = other->stay.number())
                    found.push_back({&other->stay, number});
        return found;
    }
    static bool reads_any(const Read &read, const Span &span) {
        bool any = false;
        for (const int64_t row : read.rows)
            any |= span.has(row);
        return any;
    }

    const int64_t capacity_;
    const std::vector<Column> columns_;
    const Options options_;
    Tree tree_;
    mutable std::mutex tree_mutex_;    // PAL's global tree lock: the tree, the ring, who reads and who writes
    mutable std::mutex leaf_mutex_;    // PAL's last level lock: taken with the tree lock to write leaves
    std::atomic<int32_t> frozen_{0};   // freezes without their `thaw` yet: snapshots may overlap
    int64_t cursor_ = 0, claimed_ = 0; // rows that insertions have claimed so far
    std::atomic<int64_t> size_{0}, taken_{0};
    std::atomic<double> max_priority_{1.0};
    uint32_t last_number_ = 0;
    std::vector<std::unique_ptr<Read>> reads_;
    std::vector<std::unique_ptr<Write>> writes_;
    std::vector<int64_t> kept_rows_;
    std::vector<double> kept_priorities_;
};

} // namespace placerl::replay
