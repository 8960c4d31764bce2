// A K-ary sum tree in implicit arrays, one a level (MAP
// IV-C, PAL IV-C4). Not synchronised: callers serialise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "native/memory_block.hpp"
#include "sum_tree/native/kernels.hpp"
#include "sum_tree/native/parallel.hpp"

namespace placerl::sum_tree {

struct Layout {
    bool aligned = true; // node groups start on cache lines; else one value later, so that they straddle two
    // Levels of at most this many values keep running sums: cheaper to descend, but the first descent after
    // updates brings them up to date. No result depends on it.
    int64_t running_sums_max = 65536;
};

template <typename Real>
class KaryTree {
  public:
    static constexpr size_t line_bytes = 64;

    // `capacity` >= 1 leaves of priority 0; `fanout` >= 2; `simd` as in kernels(), empty for the widest.
    KaryTree(int64_t capacity, int fanout, Layout layout = {}, const std::string &simd = "")
        : capacity_(capacity), kernels_(kernels<Real>(simd)) {
        if (!kernels_)
            throw std::invalid_argument(
                "simd: found '" + simd +
                "'; allowed: a set that this processor has of avx512, avx2, portable");
        view_.fanout = fanout;
        view_.shift = (fanout & (fanout - 1)) == 0 ? __builtin_ctz(unsigned(fanout)) : -1;
        std::vector<int64_t> nodes;
        for (int64_t values = capacity; nodes.empty() || values > 1;) {
            values = (values - 1) / fanout + 1;
            nodes.insert(nodes.begin(), values);
        }
        view_.levels = int(nodes.size());
        // A Real tells some 2^24 prefixes apart: enough once a node has few leaves below it.
        for (int64_t below = capacity; below > 4096 && view_.refined_level + 1 < view_.levels;
             below = (below - 1) / fanout + 1)
            ++view_.refined_level;
        place(nodes, layout);
    }

    // Threads for large batches of find and sample; 1 at first. More pay only where cores are idle: with
    // OpenMP a core that is taken stalls the call for milliseconds.
    void use_threads(int threads) { threads_ = threads; }
    int64_t capacity() const { return capacity_; }
    int fanout() const { return view_.fanout; }
    double total() const { return double(view_.total); }
    const char *simd() const { return kernels_->name; }
    size_t bytes() const { return bytes_; }
    const View<Real> &view() const { return view_; }
    // The priorities, `capacity` of them: read them, never write them.
    const Real *priorities() const { return view_.level[view_.levels - 1].value; }

    void find(const double *prefix, int64_t *indices, int64_t count) {
        keep();
        in_parallel(threads_, count, [&](int64_t first, int64_t size, int) {
            kernels_->find(view_, prefix + first, indices + first, size);
        });
    }
    void sample(Seed seed, bool stratified, int64_t *indices, int64_t count) {
        keep();
        in_parallel(threads_, count, [&](int64_t first, int64_t size, int part) {
            const Seed own{{seed.word[0] + 0xd1b54a32d192ed03u * uint64_t(part), seed.word[1]}};
            kernels_->sample(view_, own, stratified, indices + first, size, first, count);
        });
    }
    // Brings the running sums up to date, as `find` and `sample` do first.
    void keep() { kernels_->keep(view_); }
    // Step::leaves, then Step::sums with the same indices, do what one call with both does.
    void update(const int64_t *indices, const double *priorities, int64_t count, Step step = Step::both) {
        reserve(count);
        kernels_->update(view_, indices, priorities, count, step);
    }
    void update(const int64_t *indices, const float *priorities, int64_t count, Step step = Step::both) {
        reserve(count);
        kernels_->update_single(view_, indices, priorities, count, step);
    }

  private:
    void reserve(int64_t count) {
        const int64_t needed = std::min(count, view_.level[view_.levels - 1].nodes) + update_part;
        if (int64_t(touched_.size()) < needed)
            touched_.resize(size_t(needed));
        view_.touched = touched_.data();
    }

    static size_t padded(size_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

    // One block for everything, the upper levels first: what every descent reads lies together.
    void place(const std::vector<int64_t> &nodes, const Layout &layout) {
        const size_t offset = layout.aligned ? 0 : sizeof(Real);
        std::vector<size_t> value_at, before_at, stale_at;
        const auto take = [this](size_t bytes) {
            const size_t at = bytes_;
            bytes_ += padded(bytes);
            return at;
        };
        for (const int64_t count : nodes) {
            const size_t values = size_t(count) * size_t(view_.fanout);
            const bool kept = int64_t(values) <= layout.running_sums_max;
            value_at.push_back(take(values * sizeof(Real) + offset) + offset);
            before_at.push_back(kept ? take(values * sizeof(Real) + offset) + offset : 0);
            stale_at.push_back(kept ? take(size_t(count) * sizeof(int64_t)) : 0);
        }
        block_ = zeroed_block(bytes_, line_bytes);
        const auto reals = [this](size_t at) { return reinterpret_cast<Real *>(block_.get() + at); };
        for (size_t depth = 0; depth < nodes.size(); ++depth) {
            view_.level[depth] = {reals(value_at[depth]), nullptr, nullptr, 0, nodes[depth]};
            if (!before_at[depth])
                continue;
            view_.level[depth].before = reals(before_at[depth]);
            view_.level[depth].stale = reinterpret_cast<int64_t *>(block_.get() + stale_at[depth]);
        }
    }

    int64_t capacity_;
    int threads_ = 1;
    const Kernels<Real> *kernels_;
    View<Real> view_{};
    size_t bytes_ = 0;
    MemoryBlock block_;
    std::vector<int64_t> touched_;
};

} // namespace placerl::sum_tree
