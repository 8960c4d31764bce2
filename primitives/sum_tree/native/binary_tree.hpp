// A plain binary sum tree behind one global lock: what PAL Fig. 9 compares its K-ary tree with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <vector>

namespace placerl::sum_tree {

template <typename Real>
class BinaryTree {
  public:
    explicit BinaryTree(int64_t capacity) {
        while (leaves_ < capacity)
            leaves_ *= 2;
        node_.assign(size_t(2 * leaves_), Real(0)); // node 1 is the root, 2 n and 2 n + 1 the children of n
    }

    double total() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return double(node_[1]);
    }

    // False, having done nothing, where a prefix is not in [0, total).
    bool find(const double *prefix, int64_t *indices, int64_t count) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (int64_t b = 0; b < count; ++b)
            if (!(prefix[b] >= 0 && prefix[b] < double(node_[1])))
                return false;
        for (int64_t b = 0; b < count; ++b)
            indices[b] = leaf(prefix[b]);
        return true;
    }

    // The leaves at fractions of the total, in [0, 1]. False, having done nothing, where the total is 0.
    bool draw(const double *fraction, int64_t *indices, int64_t count) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const double total = double(node_[1]), below_total = std::nextafter(total, 0.0);
        if (!(total > 0))
            return false;
        for (int64_t b = 0; b < count; ++b)
            indices[b] = leaf(std::min(fraction[b] * total, below_total));
        return true;
    }

    void update(const int64_t *indices, const double *priorities, int64_t count) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (int64_t b = 0; b < count; ++b) {
            int64_t n = leaves_ + indices[b];
            node_[size_t(n)] = Real(priorities[b]);
            for (n /= 2; n >= 1; n /= 2)
                node_[size_t(n)] = node_[size_t(2 * n)] + node_[size_t(2 * n + 1)];
        }
    }

    void get(const int64_t *indices, Real *priorities, int64_t count) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (int64_t b = 0; b < count; ++b)
            priorities[b] = node_[size_t(leaves_ + indices[b])];
    }

  private:
    int64_t leaf(double rest) const {
        int64_t n = 1;
        while (n < leaves_) {
            const double left = double(node_[size_t(2 * n)]);
            // Sums are rounded: what is left may reach past a right half that is all 0.
            const bool right = rest >= left && node_[size_t(2 * n + 1)] > 0;
            rest -= right ? left : 0.0;
            n = 2 * n + right;
        }
        return n - leaves_;
    }

    int64_t leaves_ = 1;
    std::vector<Real> node_;
    mutable std::mutex mutex_;
};

} // namespace placerl::sum_tree
