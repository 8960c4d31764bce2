// Threads on one replay, by how they share it (PAL VI-D, Fig. 9). The threads are C++'s own and their loops
// hold nothing but the replay's calls, so that what is measured is the sharing and not Python.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "replay/native/concurrent_replay.hpp"
#include "sum_tree/native/binary_tree.hpp"

namespace placerl::replay {

inline uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Rows in columns: a storage, or a batch.
class Rows {
  public:
    Rows(const std::vector<size_t> &row_bytes, int64_t count) : row_bytes_(row_bytes) {
        for (const size_t bytes : row_bytes) {
            column_.emplace_back(bytes * size_t(count));
            out_.push_back(column_.back().data());
        }
        in_.assign(out_.begin(), out_.end());
    }

    Rows(Rows &&) = default;

    char *const *out() { return out_.data(); }
    const char *const *in() const { return in_.data(); }
    std::vector<Column> view() {
        std::vector<Column> all;
        for (size_t c = 0; c < out_.size(); ++c)
            all.push_back({out_[c], row_bytes_[c]});
        return all;
    }

    // An item all of whose bytes follow from `number`, so that a row made of two items shows.
    void write(int64_t row, uint64_t number) {
        for (size_t c = 0; c < out_.size(); ++c)
            std::memset(out_[c] + size_t(row) * row_bytes_[c], int(mark(number, c)), row_bytes_[c]);
        std::memcpy(out_[0] + size_t(row) * row_bytes_[0], &number, sizeof number);
    }
    bool whole(int64_t row) const {
        uint64_t number;
        std::memcpy(&number, out_[0] + size_t(row) * row_bytes_[0], sizeof number);
        for (size_t c = 0; c < out_.size(); ++c)
            for (size_t i = c ? 0 : sizeof number; i < row_bytes_[c]; ++i)
                if (uint8_t(out_[c][size_t(row) * row_bytes_[c] + i]) != mark(number, c))
                    return false;
        return true;
    }

  private:
    static uint8_t mark(uint64_t number, size_t column) { return uint8_t(mixed(number + (column << 32))); }

    std::vector<size_t> row_bytes_;
    std::vector<std::vector<char>> column_;
    std::vector<char *> out_;
    std::vector<const char *> in_;
};

// A replay as its threads see it; arguments as `ConcurrentReplay` takes them.
class SharedReplay {
  public:
    virtual ~SharedReplay() = default;
    virtual void insert(const char *const *items, int64_t count) = 0;
    virtual bool sample(sum_tree::Seed seed, int64_t count, double beta, int64_t *indices, float *weights,
                        char *const *out) = 0;
    virtual void update(const int64_t *rows, const double *priorities, int64_t count) = 0;
    virtual int64_t size() const = 0;
};

// PAL IV-D: lazy writing and two locks.
class TwoLocks : public SharedReplay {
  public:
    TwoLocks(Rows &storage, int64_t capacity, int fanout)
        : replay_(capacity, storage.view(), fanout, {0.6, 1e-6, true}) {}

    void insert(const char *const *items, int64_t count) override { replay_.insert(items, count, nullptr); }
    bool sample(sum_tree::Seed seed, int64_t count, double beta, int64_t *indices, float *weights,
                char *const *out) override {
        return replay_.sample(seed, false, count, beta, indices, weights, out);
    }
    void update(const int64_t *rows, const double *priorities, int64_t count) override {
        replay_.update(rows, priorities, count);
    }
    int64_t size() const override { return replay_.size(); }

  private:
    ConcurrentReplay replay_;
};

// The K-ary and the binary tree behind one interface.
class KaryDraws {
  public:
    KaryDraws(int64_t capacity, int fanout) : tree_(capacity, fanout) {}

    double total() const { return tree_.total(); }
    void draw(sum_tree::Seed seed, int64_t *rows, double *priorities, int64_t count) {
        tree_.sample(seed, false, rows, count);
        for (int64_t b = 0; b < count; ++b)
            priorities[b] = double(tree_.priorities()[rows[b]]);
    }
    void update(const int64_t *rows, const double *priorities, int64_t count) {
        tree_.update(rows, priorities, count);
    }

  private:
    sum_tree::KaryTree<float> tree_;
};

class BinaryDraws {
  public:
    BinaryDraws(int64_t capacity, int) : tree_(capacity) {}

    double total() const { return tree_.total(); }
    void draw(sum_tree::Seed seed, int64_t *rows, double *priorities, int64_t count) {
        const double total = tree_.total();
        const double largest = std::nextafter(total, 0.0);
        prefix_.resize(size_t(count));
        values_.resize(size_t(count));
        for (int64_t b = 0; b < count; ++b) {
            const uint64_t bits = mixed(seed.word[0] += 0x9e3779b97f4a7c15u) >> 11;
            prefix_[size_t(b)] = std::min(double(bits) * 0x1p-53 * total, largest);
        }
        tree_.find(prefix_.data(), rows, count);
        tree_.get(rows, values_.data(), count);
        std::copy(values_.begin(), values_.end(), priorities);
    }
    void update(const int64_t *rows, const double *priorities, int64_t count) {
        tree_.update(rows, priorities, count);
    }

  private:
    sum_tree::BinaryTree<float> tree_;
    std::vector<double> prefix_;
    std::vector<float> values_;
};

// The same replay for one thread at a time: no lock of its own, nothing lazy.
template <typename Draws>
class PlainReplay : public SharedReplay {
  public:
    PlainReplay(Rows &storage, int64_t capacity, int fanout)
        : capacity_(capacity), columns_(storage.view()), draws_(capacity, fanout) {}

    void insert(const char *const *items, int64_t count) override {
        const Span span{cursor_, count, capacity_};
        const int64_t until_end = std::min(count, capacity_ - span.first);
        for (size_t c = 0; c < columns_.size(); ++c) {
            const auto [rows, row_bytes] = columns_[c];
            std::memcpy(rows + size_t(span.first) * row_bytes, items[c], size_t(until_end) * row_bytes);
            std::memcpy(rows, items[c] + size_t(until_end) * row_bytes,
                        size_t(count - until_end) * row_bytes);
        }
        rows_.resize(size_t(count));
        for (int64_t i = 0; i < count; ++i)
            rows_[size_t(i)] = span.row(i);
        priorities_.assign(size_t(count), max_priority_);
        draws_.update(rows_.data(), priorities_.data(), count);
        cursor_ = count == capacity_ ? cursor_ : span.row(count);
        size_ = std::min(capacity_, size_ + count);
    }

    bool sample(sum_tree::Seed seed, int64_t count, double beta, int64_t *indices, float *weights,
                char *const *out) override {
        if (!(draws_.total() > 0))
            return false;
        priorities_.resize(size_t(count));
        draws_.draw(seed, indices, priorities_.data(), count);
        for (size_t c = 0; c < columns_.size(); ++c)
            gather(columns_[c], indices, count, out[c]);
        importance_weights(priorities_.data(), count, draws_.total(), size_, beta, true, weights);
        return true;
    }

    void update(const int64_t *rows, const double *priorities, int64_t count) override {
        draws_.update(rows, priorities, count);
        max_priority_ = std::max(max_priority_, *std::max_element(priorities, priorities + count));
    }

    int64_t size() const override { return size_; }

  private:
    const int64_t capacity_;
    const std::vector<Column> columns_;
    Draws draws_;
    int64_t cursor_ = 0, size_ = 0;
    double max_priority_ = 1.0;
    std::vector<int64_t> rows_;
    std::vector<double> priorities_;
};

// One lock around every call, data included.
template <typename Draws>
class OneLock : public SharedReplay {
  public:
    OneLock(Rows &storage, int64_t capacity, int fanout) : replay_(storage, capacity, fanout) {}

    void insert(const char *const *items, int64_t count) override {
        const std::lock_guard lock(mutex_);
        replay_.insert(items, count);
    }
    bool sample(sum_tree::Seed seed, int64_t count, double beta, int64_t *indices, float *weights,
                char *const *out) override {
        const std::lock_guard lock(mutex_);
        return replay_.sample(seed, count, beta, indices, weights, out);
    }
    void update(const int64_t *rows, const double *priorities, int64_t count) override {
        const std::lock_guard lock(mutex_);
        replay_.update(rows, priorities, count);
    }
    int64_t size() const override {
        const std::lock_guard lock(mutex_);
        return replay_.size();
    }

  private:
    mutable std::mutex mutex_;
    PlainReplay<Draws> replay_;
};

// One thread makes all calls, in the order in which they come; callers wait for its answers. Who waits looks
// a few times and then sleeps, as the standard library's atomics do.
class OwnerThread : public SharedReplay {
  public:
    OwnerThread(Rows &storage, int64_t capacity, int fanout)
        : replay_(storage, capacity, fanout), thread_([this] { serve(); }) {}
    OwnerThread(const OwnerThread &) = delete;
    OwnerThread &operator=(const OwnerThread &) = delete;
    ~OwnerThread() override {
        Request &end = free_request();
        end.work = nullptr;
        ask(end);
        thread_.join();
    }

    void insert(const char *const *items, int64_t count) override {
        call([&] { replay_.insert(items, count); });
    }
    bool sample(sum_tree::Seed seed, int64_t count, double beta, int64_t *indices, float *weights,
                char *const *out) override {
        bool any = false;
        call([&] { any = replay_.sample(seed, count, beta, indices, weights, out); });
        return any;
    }
    void update(const int64_t *rows, const double *priorities, int64_t count) override {
        call([&] { replay_.update(rows, priorities, count); });
    }
    // When no call is under way.
    int64_t size() const override { return replay_.size(); }

  private:
    // They outlive their calls, as the owner may still notify one whose caller has gone on.
    struct Request {
        std::atomic<bool> taken{false};
        std::atomic<bool> done{false};
        void (*work)(void *) = nullptr; // null: the last one
        void *arguments = nullptr;
        Request *next = nullptr;
    };

    template <typename Work>
    void call(Work work) {
        Request &request = free_request();
        request.work = [](void *arguments) { (*static_cast<Work *>(arguments))(); };
        request.arguments = &work;
        ask(request);
    }

    Request &free_request() {
        for (;;)
            for (Request &request : requests_)
                if (!request.taken.exchange(true, std::memory_order_acquire))
                    return request;
    }

    void ask(Request &request) {
        request.done.store(false, std::memory_order_relaxed);
        request.next = newest_.load(std::memory_order_relaxed);
        while (!newest_.compare_exchange_weak(request.next, &request, std::memory_order_release,
                                              std::memory_order_relaxed)) {
        }
        newest_.notify_one();
        request.done.wait(false, std::memory_order_acquire);
        request.taken.store(false, std::memory_order_release);
    }

    void serve() {
        for (bool last = false; !last;) {
            newest_.wait(nullptr, std::memory_order_acquire);
            Request *oldest = nullptr;
            for (Request *taken = newest_.exchange(nullptr, std::memory_order_acquire); taken;) {
                Request *const next = taken->next;
                taken->next = oldest;
                oldest = taken;
                taken = next;
            }
            while (oldest) {
                Request &request = *oldest;
                oldest = request.next; // before it is done, as it is taken again then
                if (request.work)
                    request.work(request.arguments);
                else
                    last = true;
                request.done.store(true, std::memory_order_release);
                request.done.notify_one();
            }
        }
    }

    PlainReplay<KaryDraws> replay_;
    std::array<Request, 64> requests_;
    std::atomic<Request *> newest_{nullptr};
    std::thread thread_;
};

// One turn of threads that go round: insert, sample, update the priorities of what was sampled.
struct Turn {
    int threads;
    int64_t batch_size;
    int64_t inserted; // items in one insert
    double duration_s;
    uint64_t seed;
    bool verify; // look at every byte that was sampled: such a turn tells no speed
};

struct TurnResult {
    double wall_s;  // from the start of the first thread to the end of the last
    int64_t rounds; // of all threads together
    int64_t torn;   // sampled rows that were not whole, or of no valid weight or index; 0 unless `verify`
};

// A replay full of whole items, and turns of threads on it.
class Contention {
  public:
    // `sharing` is one of the names in `make`; the first column holds 8 bytes or more.
    Contention(const std::string &sharing, int64_t capacity, std::vector<size_t> row_bytes, int fanout)
        : capacity_(capacity), row_bytes_(std::move(row_bytes)), storage_(row_bytes_, capacity),
          replay_(make(sharing, fanout)) {
        constexpr int64_t block = 4096;
        Rows items(row_bytes_, block);
        for (int64_t first = 0; first < capacity; first += block) {
            const int64_t count = std::min(block, capacity - first);
            for (int64_t row = 0; row < count; ++row)
                items.write(row, uint64_t(first + row));
            replay_->insert(items.in(), count);
        }
    }

    int64_t size() const { return replay_->size(); }

    TurnResult run(const Turn &turn) {
        std::vector<TurnResult> results(size_t(turn.threads));
        std::atomic<int> ready{0};
        std::atomic<bool> go{false}, stop{false};
        std::vector<std::thread> threads;
        try {
            for (int number = 0; number < turn.threads; ++number)
                threads.emplace_back([&, number] {
                    Loop loop(*this, turn, number);
                    ++ready;
                    go.wait(false);
                    results[size_t(number)] = loop.run(*replay_, stop);
                });
        } catch (...) { // one cannot be created
            stop = go = true;
            go.notify_all();
            for (std::thread &thread : threads)
                thread.join();
            throw;
        }
        while (ready < turn.threads)
            std::this_thread::yield();
        const auto start = std::chrono::steady_clock::now();
        go = true;
        go.notify_all();
        std::this_thread::sleep_for(std::chrono::duration<double>(turn.duration_s));
        stop = true;
        TurnResult total{};
        for (int number = 0; number < turn.threads; ++number) {
            threads[size_t(number)].join();
            total.rounds += results[size_t(number)].rounds;
            total.torn += results[size_t(number)].torn;
        }
        const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
        total.wall_s = wall.count();
        return total;
    }

  private:
    // What one thread needs, made before the clock starts.
    class Loop {
      public:
        Loop(const Contention &owner, const Turn &turn, int number)
            : turn_(turn), capacity_(owner.capacity_), random_(mixed(turn.seed * 1024 + uint64_t(number))),
              batch_(owner.row_bytes_, turn.batch_size), indices_(size_t(turn.batch_size)),
              weights_(size_t(turn.batch_size)), priorities_(size_t(turn.batch_size) + turns) {
            for (int i = 0; i < turns; ++i) {
                Rows &items = items_.emplace_back(owner.row_bytes_, turn.inserted);
                for (int64_t row = 0; row < turn.inserted; ++row)
                    items.write(row, next());
            }
            for (double &priority : priorities_)
                priority = 0.01 + double(next() >> 11) * 0x1p-53;
        }

        TurnResult run(SharedReplay &replay, const std::atomic<bool> &stop) {
            TurnResult result{};
            do {
                const size_t turn = size_t(result.rounds) % turns;
                replay.insert(items_[turn].in(), turn_.inserted);
                const bool any = replay.sample({{next(), next()}}, turn_.batch_size, 0.4, indices_.data(),
                                               weights_.data(), batch_.out());
                if (turn_.verify)
                    result.torn += any ? torn() : turn_.batch_size;
                if (any) // another place each time, so that priorities differ from round to round
                    replay.update(indices_.data(), priorities_.data() + turn, turn_.batch_size);
                ++result.rounds;
            } while (!stop.load(std::memory_order_relaxed));
            return result;
        }

      private:
        static constexpr int turns = 16;

        uint64_t next() { return mixed(random_ += 0x9e3779b97f4a7c15u); }
        int64_t torn() const {
            int64_t count = 0;
            for (int64_t b = 0; b < turn_.batch_size; ++b) {
                const int64_t row = indices_[size_t(b)];
                const float weight = weights_[size_t(b)];
                count += !(batch_.whole(b) && row >= 0 && row < capacity_ && weight > 0 && weight <= 1);
            }
            return count;
        }

        const Turn turn_;
        const int64_t capacity_;
        uint64_t random_;
        Rows batch_;
        std::vector<int64_t> indices_;
        std::vector<float> weights_;
        std::vector<double> priorities_;
        std::vector<Rows> items_;
    };

    std::unique_ptr<SharedReplay> make(const std::string &sharing, int fanout) {
        if (sharing == "two locks")
            return std::make_unique<TwoLocks>(storage_, capacity_, fanout);
        if (sharing == "one lock")
            return std::make_unique<OneLock<KaryDraws>>(storage_, capacity_, fanout);
        if (sharing == "one lock, binary tree")
            return std::make_unique<OneLock<BinaryDraws>>(storage_, capacity_, fanout);
        if (sharing == "owner thread")
            return std::make_unique<OwnerThread>(storage_, capacity_, fanout);
        throw std::invalid_argument("sharing: found '" + sharing +
                                    "'; allowed: two locks, one lock, one lock, binary tree, owner thread");
    }

    const int64_t capacity_;
    const std::vector<size_t> row_bytes_;
    Rows storage_;
    std::unique_ptr<SharedReplay> replay_;
};

} // namespace placerl::replay
