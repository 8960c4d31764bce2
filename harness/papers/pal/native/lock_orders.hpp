// Threads that sample and update one sum tree, by the order in which they hold its locks (PAL Algorithm 3,
// Fig. 9).
#pragma once

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness/papers/pal/native/contention.hpp"
#include "harness/papers/pal/native/scalar_tree.hpp"

namespace placerl::sum_tree {

// A full tree, and turns of threads that each repeat PAL's round: sample a batch, update its priorities.
class LockOrders {
  public:
    // `order`: "printed", sampling holds the global tree lock from start to end, as Algorithm 3 prints it,
    // and so does an update; "unlocked sampling", only updates hold it, and a descent sees what they have
    // written so far.
    LockOrders(const std::string &order, int64_t capacity, int fanout)
        : locked_(order == "printed"), tree_(capacity, fanout, true) {
        if (!locked_ && order != "unlocked sampling")
            throw std::invalid_argument("order: found '" + order + "'; allowed: printed, unlocked sampling");
        std::vector<int64_t> rows(static_cast<size_t>(capacity));
        for (size_t row = 0; row < rows.size(); ++row)
            rows[row] = int64_t(row);
        tree_.update(rows.data(), std::vector<double>(rows.size(), 1.0).data(), capacity);
    }

    double total() const { return tree_.total(); }

    // The sum of the leaves, as which the total ends if no update was lost above them.
    double leaves_total() const {
        double sum = 0;
        for (int64_t row = 0; row < tree_.capacity(); ++row) {
            float priority = 0;
            tree_.get(&row, &priority, 1);
            sum += double(priority);
        }
        return sum;
    }

    // Seconds in which each of `threads` makes `rounds` rounds; from the start of the first to the end of the
    // last.
    double run(int threads, int64_t batch_size, int64_t rounds, uint64_t seed) {
        std::atomic<int> ready{0};
        std::atomic<bool> go{false};
        std::vector<std::thread> all;
        try {
            for (int number = 0; number < threads; ++number)
                all.emplace_back([&, number] {
                    Buffers own(batch_size, replay::mixed(seed * 1024 + uint64_t(number)));
                    ++ready;
                    go.wait(false);
                    for (int64_t i = 0; i < rounds; ++i)
                        round(own);
                });
        } catch (...) { // one cannot be created
            rounds = 0;
            go = true;
            go.notify_all();
            for (std::thread &thread : all)
                thread.join();
            throw;
        }
        while (ready < threads)
            std::this_thread::yield();
        const auto start = std::chrono::steady_clock::now();
        go = true;
        go.notify_all();
        for (std::thread &thread : all)
            thread.join();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

  private:
    struct Buffers {
        Buffers(int64_t batch_size, uint64_t seed)
            : random(seed), uniform(size_t(batch_size)), priorities(size_t(batch_size)),
              rows(size_t(batch_size)) {}

        double next() { return double(replay::mixed(random += 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53; }

        uint64_t random;
        std::vector<double> uniform, priorities;
        std::vector<int64_t> rows;
        std::vector<float> differences;
    };

    void round(Buffers &own) {
        const int64_t count = int64_t(own.rows.size());
        for (size_t b = 0; b < own.rows.size(); ++b) {
            own.uniform[b] = own.next();
            own.priorities[b] = double(1 + int(own.next() * 7));
        }
        if (locked_) {
            const std::lock_guard global(tree_mutex_);
            tree_.sample(own.uniform.data(), own.rows.data(), count);
        } else {
            tree_.sample(own.uniform.data(), own.rows.data(), count);
        }
        const std::lock_guard global(tree_mutex_);
        {
            const std::lock_guard last_level(leaf_mutex_);
            tree_.set_leaves(own.rows.data(), own.priorities.data(), count, own.differences);
        }
        tree_.add_above(own.rows.data(), own.differences);
    }

    const bool locked_;
    ScalarTree tree_;
    std::mutex tree_mutex_, leaf_mutex_;
};

} // namespace placerl::sum_tree
