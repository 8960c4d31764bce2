// Threads that share an operation's work: made once, awake while there is work, asleep soon after it.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <exception>
#include <vector>

#include <pthread.h>

#include "native/own_threads.hpp"
#include "native/subnormals.hpp"
#include "native/waiting.hpp"

namespace placerl::learner {

constexpr int MAXIMUM_THREADS = 64; // a bit of a word each

// The caller of `run` and the workers beside it. Work comes in parts, one a thread; the caller does its own,
// then those that their workers have not begun. So a worker that sleeps, or has no core, holds nobody up, and
// a process that was forked, which has no workers, does all itself.
class Team {
  public:
    // `threads`: the caller and at least one worker.
    explicit Team(int threads) : failures_(static_cast<std::size_t>(threads)) {
        // Signals are for the threads that know of them.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            for (int part = 1; part < threads; ++part)
                workers_.start([this, part] { serve(part); });
        } catch (...) {
            pthread_sigmask(SIG_SETMASK, &before, nullptr);
            end();
            throw;
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    ~Team() { end(); }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    int threads() const { return static_cast<int>(failures_.size()); }

    // Has sleeping workers look out for work, which takes them some microseconds.
    void wake() {
        if (sleepers_.load() > 0) {
            wakes_.fetch_add(1);
            wakes_.notify_all();
        }
    }

    // work(part) once for each part < parts, parts being 2 to `threads`. What the first of them throws comes
    // out when all are done. A second caller meanwhile does its parts itself.
    template <typename Work>
    void run(int parts, const Work &work) {
        if (busy_.test_and_set(std::memory_order_acquire)) {
            for (int part = 0; part < parts; ++part)
                work(part);
            return;
        }
        work_ = &work;
        call_ = [](const void *given, int part) { (*static_cast<const Work *>(given))(part); };
        pending_.store(parts - 1, std::memory_order_relaxed);
        open_.store(bits_below(parts) & ~std::uint64_t{1}); // publishes all of it
        wake();
        attempt(0);
        for (int part = parts - 1; part > 0; --part)
            if (take(part))
                finish(part);
        for (Waiting waiting; pending_.load(std::memory_order_acquire) > 0;)
            waiting.turn();
        const std::exception_ptr failure = failed_ ? first_failure() : nullptr;
        busy_.clear(std::memory_order_release);
        if (failure)
            std::rethrow_exception(failure);
    }

  private:
    static std::uint64_t bits_below(int count) {
        return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    }

    // Whether the part was there to take: whoever takes it does it.
    bool take(int part) {
        const std::uint64_t bit = std::uint64_t{1} << part;
        return open_.load(std::memory_order_relaxed) & bit &&
               open_.fetch_and(~bit, std::memory_order_acq_rel) & bit;
    }

    void finish(int part) {
        attempt(part);
        pending_.fetch_sub(1, std::memory_order_release);
    }

    void attempt(int part) {
        try {
            call_(work_, part);
        } catch (...) {
            failures_[static_cast<std::size_t>(part)] = std::current_exception();
            failed_ = true;
        }
    }

    // What the first part threw that threw something; forgets all.
    std::exception_ptr first_failure() {
        failed_ = false;
        std::exception_ptr first;
        for (std::exception_ptr &failure : failures_) {
            if (!first)
                first = failure;
            failure = nullptr;
        }
        return first;
    }

    void serve(int part) {
        const FlushSubnormals flush; // as the caller has it while it runs a step
        for (Waiting waiting; !ending_.load(std::memory_order_acquire);) {
            if (take(part)) {
                finish(part);
                waiting = Waiting();
            } else if (waiting.is_long()) {
                sleep(part);
                waiting = Waiting();
            } else {
                waiting.turn();
            }
        }
    }

    // Until the next `wake`. Whoever publishes looks for sleepers afterwards, and a sleeper looks for work
    // after it has said that it is one: one of them sees the other (all of this is sequentially consistent).
    void sleep(int part) {
        const std::uint32_t seen = wakes_.load();
        sleepers_.fetch_add(1);
        if (!(open_.load() >> part & 1) && !ending_.load())
            wakes_.wait(seen);
        sleepers_.fetch_sub(1);
    }

    void end() {
        ending_.store(true);
        wake();
        workers_.join();
    }

    // What the workers read to begin, what they write at the end, and what is rarely written, a cache line
    // each.
    alignas(64) std::atomic<std::uint64_t> open_{0}; // a bit for each part that nobody has taken
    void (*call_)(const void *, int) = nullptr;
    const void *work_ = nullptr;
    alignas(64) std::atomic<int> pending_{0}; // unfinished parts, other than the caller's first
    std::atomic<bool> failed_{false};
    alignas(64) std::atomic<std::uint32_t> wakes_{0};
    std::atomic<int> sleepers_{0};
    std::atomic<bool> ending_{false};
    std::atomic_flag busy_;
    std::vector<std::exception_ptr> failures_; // by part
    OwnThreads workers_;
};

} // namespace placerl::learner
