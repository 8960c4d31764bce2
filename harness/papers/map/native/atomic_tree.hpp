// MAP's sum tree on a CPU as its Algorithms 1 and 2 print it: threads share a
// batch, and updates add differences to every level with atomics. For MAP Fig.
// 12 alone: sums that are patched drift, so it is no backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "sum_tree/native/parallel.hpp"

namespace placerl::sum_tree {

class AtomicTree {
  public:
    // `capacity` >= 1 leaves of priority 0; `fanout` >= 2; `threads` >= 1 a call.
    AtomicTree(int64_t capacity, int fanout, int threads) : fanout_(fanout), threads_(threads) {
        if (capacity < 1 || fanout < 2 || threads < 1)
            throw std::invalid_argument(
                "AtomicTree: capacity and threads are at least 1, the fanout at least 2");
        for (int64_t values = capacity;; values = (values - 1) / fanout + 1) {
            // Room for the last node's missing children, which are 0.
            levels_.insert(levels_.begin(),
                           std::vector<double>(size_t((values - 1) / fanout + 1) * size_t(fanout)));
            if (values == 1)
                break;
        }
    }

    double total() const { return levels_[0][0]; }

    // False, having done nothing, where a prefix is not in [0, total).
    bool find(const double *prefix, int64_t *indices, int64_t count) const {
        for (int64_t b = 0; b < count; ++b)
            if (!(prefix[b] >= 0 && prefix[b] < total()))
                return false;
        in_parallel(threads_, count, [&](int64_t first, int64_t size, int) {
            for (int64_t b = first; b < first + size; ++b)
                indices[b] = leaf(prefix[b]);
        });
        return true;
    }

    void update(const int64_t *indices, const double *priorities, int64_t count) {
        in_parallel(threads_, count, [&](int64_t first, int64_t size, int) {
            for (int64_t b = first; b < first + size; ++b) {
                int64_t node = indices[b];
                std::atomic_ref leaf(levels_.back()[size_t(node)]);
                const double difference =
                    priorities[b] - leaf.exchange(priorities[b], std::memory_order_relaxed);
                for (size_t level = levels_.size() - 1; level-- > 0;) {
                    node /= fanout_;
                    std::atomic_ref(levels_[level][size_t(node)])
                        .fetch_add(difference, std::memory_order_relaxed);
                }
            }
        });
    }

    void get(const int64_t *indices, double *priorities, int64_t count) const {
        for (int64_t b = 0; b < count; ++b)
            priorities[b] = levels_.back()[size_t(indices[b])];
    }

  private:
    int64_t leaf(double rest) const {
        int64_t node = 0;
        for (size_t level = 1; level < levels_.size(); ++level) {
            const int64_t first = node * fanout_;
            int64_t last_positive = first;
            for (node = first; node < first + fanout_; ++node) {
                const double sum = levels_[level][size_t(node)];
                if (rest < sum)
                    break;
                if (sum > 0)
                    last_positive = node;
                rest -= sum;
            }
            // Sums are rounded: what is left may reach past the last child.
            if (node == first + fanout_)
                node = last_positive;
        }
        return node;
    }

    const int fanout_, threads_;
    std::vector<std::vector<double>> levels_; // the root first
};

} // namespace placerl::sum_tree
