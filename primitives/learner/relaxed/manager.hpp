// The replay manager of a data-dependency relaxed training loop (MAP V-A): samples batches ahead of the
// learner, updates priorities and inserts transitions, in a thread of its own and without the interpreter.
//
// It performs its calls in the order in which they are posted. As the learner posts them at fixed places of
// the loop, a training is the same bit by bit whether the manager works at the same time or in turns.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "learner/native/memory.hpp"
#include "learner/relaxed/turns.hpp"
#include "native/own_threads.hpp"
#include "replay/native/concurrent_replay.hpp"

namespace placerl::relaxed {

// Seconds that a thread spent so far, by what it did.
struct Seconds {
    double sample = 0, update = 0, insert = 0;
};

class Stopwatch {
  public:
    explicit Stopwatch(double &seconds) : seconds_(seconds), start_(Clock::now()) {}
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch &operator=(const Stopwatch &) = delete;
    ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

  private:
    using Clock = std::chrono::steady_clock;
    double &seconds_;
    Clock::time_point start_;
};

// How the learner takes one column of the replay.
struct TakenColumn {
    std::string name;      // empty: the learner does not read it
    bool to_float = false; // booleans that the program takes as floats
    bool is_float = false; // must be finite
    int64_t limit = 0;     // as of `learner::in_range`

    TakenColumn() = default;
    // `as`: the type of the program's input; `bytewise`: whether the replay has a byte for each row.
    TakenColumn(std::string name, learner::Type as, bool bytewise, int64_t limit)
        : name(std::move(name)), to_float(as == learner::Type::float32 && bytewise),
          is_float(as == learner::Type::float32 && !bytewise), limit(limit) {}

    learner::Type type() const { return is_float ? learner::Type::float32 : learner::Type::int64; }
};

// A batch on its way: sampled by the manager, trained on by the learner, whose TD errors it brings back.
struct Batch {
    std::vector<std::vector<char>> columns; // as the learner takes them
    std::vector<float> weights, td_errors;
    std::vector<int64_t> indices;
    int64_t claimed = 0; // as of `ConcurrentReplay::sample`
    std::string wrong;   // why it cannot be trained on; empty if it can
    bool empty = false;  // whether there was nothing to sample
};

// Transitions on their way into the replay.
struct Insertion {
    std::vector<std::vector<char>> columns;
    std::vector<double> priorities; // empty: the maximum so far
    int64_t count = 0;
};

class ReplayManager {
  public:
    using AllFinite = bool (*)(const float *, long);

    // `columns`: one for each column of the replay. `depth`: calls that may be waiting. `burst`: calls after
    // which the thread is woken, at most `depth`; with 1 it spins for the next call before it sleeps.
    // `beside`: whether a thread performs them; otherwise each is performed when it is posted.
    ReplayManager(replay::ConcurrentReplay &replay, int64_t batch_size, double priority_max,
                  std::vector<TakenColumn> columns, AllFinite all_finite, std::size_t depth,
                  std::size_t burst, bool beside)
        : replay_(replay), batch_size_(batch_size), priority_max_(priority_max), columns_(std::move(columns)),
          all_finite_(all_finite), raw_(columns_.size()), outputs_(columns_.size()),
          priorities_(std::size_t(batch_size)), calls_(std::bit_ceil(depth)), burst_(burst) {
        for (std::size_t c = 0; c < columns_.size(); ++c)
            raw_[c].resize(std::size_t(batch_size) * replay.columns()[c].row_bytes);
        if (beside)
            thread_.start([this] { serve(); });
    }
    ReplayManager(const ReplayManager &) = delete;
    ReplayManager &operator=(const ReplayManager &) = delete;
    ~ReplayManager() { end(); }
    // Performs what was posted, and ends the thread. Nothing may be posted any more.
    void end() {
        if (!beside() || thread_.elsewhere())
            return; // in a forked process nobody takes calls, or makes room
        post({Call::Kind::end});
        wake();
        thread_.join();
    }

    // Arrays for `Batch`.
    Batch batch() const {
        Batch made;
        const auto size = std::size_t(batch_size_);
        for (std::size_t c = 0; c < columns_.size(); ++c)
            made.columns.emplace_back(columns_[c].name.empty() ? 0
                                      : columns_[c].to_float   ? size * sizeof(float)
                                                               : raw_[c].size());
        made.weights.resize(size);
        made.td_errors.resize(size);
        made.indices.resize(size);
        return made;
    }

    // Each returns the number of its call; the arguments must stay until it is done.
    uint64_t sample(Batch &batch, sum_tree::Seed seed, double beta) {
        return post({Call::Kind::sample, &batch, nullptr, seed, beta});
    }
    uint64_t update(Batch &batch) { return post({Call::Kind::update, &batch}); }
    uint64_t insert(Insertion &insertion) { return post({Call::Kind::insert, nullptr, &insertion}); }

    void wait_for(uint64_t call) {
        if (done_.reached(call))
            return;
        wake();
        done_.wait_for(call);
    }
    // Lets the thread begin with all calls that wait.
    void wake() { posted_.wake(); }
    // Waits until every call is done; throws the first error of a call.
    void drain() {
        wait_for(posted_.count());
        rethrow();
    }
    void rethrow() const {
        if (failed_.load(std::memory_order_acquire))
            std::rethrow_exception(failure_);
    }
    // After `drain` threw: performs calls again.
    void recover() {
        failure_ = nullptr;
        failed_.store(false, std::memory_order_release);
    }
    bool beside() const { return !thread_.empty(); }
    // Its thread, if it has one, runs on this core alone.
    void bind(int core) { thread_.bind(core); }
    // Complete after `drain`.
    const Seconds &seconds() const { return seconds_; }

  private:
    struct Call {
        enum class Kind { end, sample, update, insert } kind = Kind::end;
        Batch *batch = nullptr;
        Insertion *insertion = nullptr;
        sum_tree::Seed seed{};
        double beta = 0;
    };

    uint64_t post(const Call &call) {
        const uint64_t number = posted_.count() + 1;
        if (!beside()) {
            attempt(call);
            posted_.raise();
            done_.raise();
            return number;
        }
        if (number > calls_.size())
            wait_for(number - calls_.size()); // room
        calls_[number % calls_.size()] = call;
        posted_.raise();
        if (number % burst_ == 0)
            wake();
        return number;
    }

    void serve() {
        for (uint64_t number = 1;; ++number) {
            posted_.wait_for(number, burst_ == 1);
            const Call &call = calls_[number % calls_.size()];
            if (call.kind == Call::Kind::end)
                return;
            attempt(call);
            done_.raise();
            done_.wake();
        }
    }

    // After a failure nothing is performed any more.
    void attempt(const Call &call) {
        if (failed_.load(std::memory_order_relaxed))
            return;
        try {
            switch (call.kind) {
            case Call::Kind::sample:
                return perform_sample(*call.batch, call.seed, call.beta);
            case Call::Kind::update:
                return perform_update(*call.batch);
            case Call::Kind::insert:
                return perform_insert(*call.insertion);
            case Call::Kind::end:
                return;
            }
        } catch (...) {
            failure_ = std::current_exception();
            failed_.store(true, std::memory_order_release);
        }
    }

    void perform_sample(Batch &batch, sum_tree::Seed seed, double beta) {
        const Stopwatch watch(seconds_.sample);
        batch.wrong.clear();
        for (std::size_t c = 0; c < columns_.size(); ++c)
            outputs_[c] =
                columns_[c].name.empty() || columns_[c].to_float ? raw_[c].data() : batch.columns[c].data();
        batch.empty = !replay_.sample(seed, false, batch_size_, beta, batch.indices.data(),
                                      batch.weights.data(), outputs_.data(), &batch.claimed);
        if (batch.empty)
            return;
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            const TakenColumn &column = columns_[c];
            auto *floats = reinterpret_cast<float *>(batch.columns[c].data());
            if (column.to_float)
                for (std::size_t b = 0; b < std::size_t(batch_size_); ++b)
                    floats[b] = raw_[c][b] ? 1.0f : 0.0f;
            else if (column.is_float && batch.wrong.empty() &&
                     !all_finite_(floats, static_cast<long>(batch.columns[c].size() / sizeof(float))))
                batch.wrong = column.name + ": found NaN or infinity; allowed: finite numbers";
            else if (batch.wrong.empty() &&
                     !learner::in_range(floats, column.type(), batch.columns[c].size(), column.limit))
                batch.wrong = learner::out_of_range(column.name, column.type(), column.limit);
        }
    }

    // A row that holds another item than the one that was sampled keeps that item's priority.
    void perform_update(const Batch &batch) {
        const Stopwatch watch(seconds_.update);
        // With alpha = 0 even NaN and infinity give priorities of 1.
        if (!all_finite_(batch.td_errors.data(), static_cast<long>(batch.td_errors.size())))
            throw std::invalid_argument("td_errors: found NaN or infinity; allowed: finite numbers");
        for (std::size_t b = 0; b < batch.indices.size(); ++b) {
            priorities_[b] = replay_.priority_of(double(batch.td_errors[b]));
            if (!(priorities_[b] <= priority_max_))
                throw std::invalid_argument("td_errors: found a priority above the largest, " +
                                            std::to_string(priority_max_));
        }
        replay_.update(batch.indices.data(), priorities_.data(), batch_size_, batch.claimed);
    }

    void perform_insert(Insertion &insertion) {
        const Stopwatch watch(seconds_.insert);
        std::vector<const char *> columns;
        for (const auto &column : insertion.columns)
            columns.push_back(column.data());
        replay_.insert(columns.data(), insertion.count,
                       insertion.priorities.empty() ? nullptr : insertion.priorities.data());
    }

    replay::ConcurrentReplay &replay_;
    const int64_t batch_size_;
    const double priority_max_;
    const std::vector<TakenColumn> columns_;
    const AllFinite all_finite_;
    // The manager's own, except between two calls.
    std::vector<std::vector<char>> raw_;
    std::vector<char *> outputs_;
    std::vector<double> priorities_;
    Seconds seconds_;
    std::exception_ptr failure_;
    std::atomic<bool> failed_{false};
    // One posts, one performs.
    std::vector<Call> calls_;
    const std::size_t burst_;
    Turns posted_, done_;
    OwnThreads thread_; // one, or none
};

} // namespace placerl::relaxed
