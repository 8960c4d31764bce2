// The batch operations of the K-ary sum tree, built once for
// each vector instruction set and chosen at run time.
#pragma once

#include <cstdint>
#include <string>

namespace placerl::sum_tree {

constexpr int max_levels = 65; // one more than the deepest tree has

// One level of the tree: the values of `nodes` groups of `fanout` children each, padded with zeros.
template <typename Real>
struct Level {
    Real *value;    // sum below each child (the priority itself at the last level)
    Real *before;   // sum of the children to the left in the same node, +inf where value is 0; null: not kept
    int64_t *stale; // nodes whose `before` is out of date
    int64_t stale_nodes; // how many are listed; where it is `nodes`, all are out of date and none is listed
    int64_t nodes;
};

// What the kernels need to know of a tree; owned by KaryTree.
template <typename Real>
struct View {
    Level<Real> level[max_levels]; // 0: the root's children
    int levels;
    int fanout;
    int shift;         // log2(fanout), or -1 where fanout is no power of two
    int refined_level; // where the bits that a prefix lost in rounding to Real are added again
    Real total;        // the root's sum
    int64_t *touched;  // room for the nodes whose sums an update changes
};

// Words that seed the uniform draws of one call; drawn from the caller's generator.
struct Seed {
    uint64_t word[2];
};

// What a call of `update` does: a lock on the leaves alone need not be held for the sums (PAL IV-D1).
enum class Step { leaves, sums, both };

constexpr int64_t update_part = 64; // items of a batch that are written and then summed

template <typename Real>
struct Kernels {
    const char *name;
    // indices[b] = the prefix sum index of prefix[b], each in [0, total).
    void (*find)(const View<Real> &, const double *prefix, int64_t *indices, int64_t count);
    // The same for prefixes drawn here, uniform in [0, total); stratified: one in each of the parts
    // first ... first + count - 1 of `of` equal ones.
    void (*sample)(const View<Real> &, Seed, bool stratified, int64_t *indices, int64_t count, int64_t first,
                   int64_t of);
    // value[indices[b]] = priorities[b] in order, then the sums above these leaves, or one of the two: the
    // sums alone read no priorities. view.touched has room for the nodes of the leaves' level or `count`,
    // whichever is fewer, and `update_part` more. Arguments are checked by the caller.
    //
    // Running sums wait for `keep`, which `find` and `sample` need: updates that follow each other share it.
    void (*update)(View<Real> &, const int64_t *indices, const double *priorities, int64_t count, Step);
    void (*update_single)(View<Real> &, const int64_t *indices, const float *priorities, int64_t count, Step);
    void (*keep)(View<Real> &);
};

// The widest kernels that this processor runs, or those of a given name: "avx512", "avx2", "portable".
// Null where the name is unknown or the processor lacks them.
template <typename Real>
const Kernels<Real> *kernels(const std::string &name = "");

// Each defined by its own translation unit, which compiles to nothing for a processor that never has the set:
// those of AVX exist, and are asked for, on x86-64 alone.
template <typename Real>
const Kernels<Real> *portable_kernels();
template <typename Real>
const Kernels<Real> *avx2_kernels();
template <typename Real>
const Kernels<Real> *avx512_kernels();

} // namespace placerl::sum_tree
