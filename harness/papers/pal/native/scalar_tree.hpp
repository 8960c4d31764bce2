// PAL's K-ary sum tree as its Algorithm 2 and Fig. 6 print it: one implicit array, one value at a time,
// updates that add differences on the way to the root. The code is the same for every K, so that only K
// differs between two trees. For PAL's claims on K alone: sums that are patched drift, so it is no backend.
//
// Two things differ from the print. The loop of UPDATEVALUE ends before the root, whose sum sampling reads
// (IV-C3): here the root is updated too. And GETPREFIXSUMIDX may leave a node group on the right where sums
// are rounded: here it then takes the last child with a sum.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "native/memory_block.hpp"

namespace placerl::sum_tree {

class ScalarTree {
  public:
    static constexpr size_t line_bytes = 64;

    // `capacity` >= 1 leaves of priority 0; `fanout` >= 2. `aligned`: the root is padded with K - 1 values,
    // so that each group of children starts at a multiple of K values (IV-C4); else the root is first and no
    // group does.
    ScalarTree(int64_t capacity, int fanout, bool aligned) : fanout_(fanout), capacity_(capacity) {
        if (capacity < 1 || fanout < 2)
            throw std::invalid_argument("ScalarTree: the capacity is at least 1, the fanout at least 2");
        int64_t width = 1, first = 0; // of the level: its nodes, and where they start
        while (width < capacity) {
            first += width;
            width *= fanout;
            ++levels_;
        }
        leaves_ = first;
        shift_ = (fanout & (fanout - 1)) == 0 ? __builtin_ctz(unsigned(fanout)) : -1;
        const size_t padding = aligned ? size_t(fanout) - 1 : 0;
        const int64_t used = levels_ ? (capacity + fanout - 1) / fanout * fanout : 1;
        block_ = zeroed_block((padding + size_t(first + used)) * sizeof(float), line_bytes);
        node_ = reinterpret_cast<float *>(block_.get()) + padding;
    }

    double total() const { return double(value(0)); }
    int64_t capacity() const { return capacity_; }
    // Where the first group of children starts, in bytes after the start of a cache line.
    size_t group_offset_bytes() const { return reinterpret_cast<uintptr_t>(node_ + 1) % line_bytes; }

    // False, having done nothing, where a prefix is not in [0, total).
    bool find(const double *prefix, int64_t *indices, int64_t count) const {
        for (int64_t b = 0; b < count; ++b)
            if (!(prefix[b] >= 0 && prefix[b] < total()))
                return false;
        for (int64_t b = 0; b < count; ++b)
            indices[b] = leaf(float(prefix[b]));
        return true;
    }

    // The leaves of uniform numbers in [0, 1): each times the total is a prefix.
    void sample(const double *uniform, int64_t *indices, int64_t count) const {
        for (int64_t b = 0; b < count; ++b)
            indices[b] = leaf(float(uniform[b] * total()));
    }

    void update(const int64_t *indices, const double *priorities, int64_t count) {
        for (int64_t b = 0; b < count; ++b) {
            int64_t node = leaves_ + indices[b];
            const float difference = float(priorities[b]) - value(node);
            set(node, float(priorities[b]));
            for (int level = 0; level < levels_; ++level) {
                node = parent(node);
                set(node, value(node) + difference);
            }
        }
    }

    // The same in the two steps of PAL's Algorithm 3: the last level, then the levels above it.
    void set_leaves(const int64_t *indices, const double *priorities, int64_t count,
                    std::vector<float> &differences) {
        differences.resize(size_t(count));
        for (int64_t b = 0; b < count; ++b) {
            const int64_t node = leaves_ + indices[b];
            differences[size_t(b)] = float(priorities[b]) - value(node);
            set(node, float(priorities[b]));
        }
    }
    void add_above(const int64_t *indices, const std::vector<float> &differences) {
        for (size_t b = 0; b < differences.size(); ++b) {
            int64_t node = leaves_ + indices[b];
            for (int level = 0; level < levels_; ++level) {
                node = parent(node);
                set(node, value(node) + differences[b]);
            }
        }
    }

    void get(const int64_t *indices, float *priorities, int64_t count) const {
        for (int64_t b = 0; b < count; ++b)
            priorities[b] = value(leaves_ + indices[b]);
    }

  private:
    // Relaxed, which costs what a plain access does: a descent may run while another thread updates.
    float value(int64_t node) const { return std::atomic_ref(node_[node]).load(std::memory_order_relaxed); }
    void set(int64_t node, float sum) { std::atomic_ref(node_[node]).store(sum, std::memory_order_relaxed); }
    int64_t parent(int64_t node) const { return shift_ >= 0 ? (node - 1) >> shift_ : (node - 1) / fanout_; }

    int64_t leaf(float rest) const {
        int64_t node = 0;
        for (int level = 0; level < levels_; ++level) {
            const int64_t first = node * fanout_ + 1, last = first + fanout_ - 1;
            float before = 0; // PAL's partialSum
            for (node = first; node < last; ++node) {
                const float sum = before + value(node);
                // Greater, not at least as great: so a leaf of priority 0 is never drawn (MAP Equation 1).
                if (sum > rest)
                    break;
                before = sum;
            }
            rest -= before;
            while (node > first && !(value(node) > 0))
                --node;
        }
        return std::min(node - leaves_, capacity_ - 1); // a descent during an update may leave the leaves
    }

    const int fanout_;
    const int64_t capacity_;
    int levels_ = 0; // below the root
    int shift_;      // log2(fanout), or -1 where fanout is no power of two
    int64_t leaves_ = 0;
    MemoryBlock block_;
    float *node_ = nullptr; // node_[0] is the root, node_[K n + 1 ...] are the children of n
};

} // namespace placerl::sum_tree
