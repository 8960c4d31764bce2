// The kernels, written once over a `Lanes` type that the including translation
// unit defines for its instruction set. Everything here has internal linkage:
// nothing compiled for one set may be merged with another's.
//
// Lanes<Real>: `width`; `Vector`; load(p, n) with zeros beyond n; store(p, v,
// n); exclusive(v), the sum of the lanes before each; sum(v); add(v, x);
// bits(v > 0); bits(a <= x); select(bits, v, x), v where set, else x.
// Where `width` is 16: lane(v, i). Where it pays: four_sums(a, b, c, d, out),
// the sums of four nodes of 16 children.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "sum_tree/native/kernels.hpp"

namespace placerl::sum_tree {
namespace {

// Descents in flight: their loads overlap, and their state stays in the first-level cache.
constexpr int in_flight = 64;

// std::min and std::max are merged across translation units when they are not inlined: these are not.
template <typename T>
T least(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
T most(T a, T b) {
    return a < b ? b : a;
}

// The highest bit set; there must be one.
inline int last_bit(uint32_t bits) { return __builtin_clz(bits) ^ 31; }
inline int last_bit(uint64_t bits) { return __builtin_clzll(bits) ^ 63; }

template <typename Real, int Fixed>
int fanout_of(const View<Real> &view) {
    return Fixed ? Fixed : view.fanout;
}

template <typename Real, int Fixed>
int64_t parent_of(const View<Real> &view, int64_t child) {
    if constexpr (Fixed != 0)
        return int64_t(uint64_t(child) / Fixed); // a shift
    return view.shift >= 0 ? child >> view.shift : child / view.fanout;
}

template <typename Real>
struct Choice {
    int child;
    Real before; // sum of the children to its left
};

// The last child of positive value whose left neighbours' sum is at most `rest`. In a node whose sum is
// positive there is one, as 0 <= `rest`; however sums were rounded, no child of value 0 is taken.
template <typename Real, int Fixed>
inline Choice<Real> choose_kept(const Real *before, int fanout, Real rest) {
    using L = Lanes<Real>;
    if constexpr (Fixed == L::width) {
        const int child = last_bit(L::at_most(L::load(before, Fixed), rest));
        return {child, before[child]};
    }
    int child = 0;
    for (int window = 0; window < fanout; window += 64) {
        const int end = least(fanout, window + 64);
        uint64_t fits = 0; // a bit a child
        for (int at = window; at < end; at += L::width)
            fits |= uint64_t(L::at_most(L::load(before + at, least(L::width, end - at)), rest))
                    << (at - window);
        // Lanes beyond the end load as 0, which would count as a sum: cut them off.
        if (end - window < 64)
            fits &= (uint64_t(1) << (end - window)) - 1;
        child = (fits || !window) ? window + last_bit(fits | 1) : child;
    }
    return {child, before[child]};
}

template <typename Real, int Fixed>
inline Choice<Real> choose_scanned(const Real *value, int fanout, Real rest) {
    using L = Lanes<Real>;
    alignas(64) Real before[64];
    if constexpr (Fixed == L::width) {
        const auto values = L::load(value, Fixed);
        Real total;
        const auto sums = L::exclusive(values, total);
        const int child = last_bit(L::at_most(sums, rest) & L::positive(values));
        return {child, L::lane(sums, child)};
    }
    Choice<Real> choice{0, 0};
    Real left = 0;
    for (int window = 0; window < fanout; window += 64) {
        const int end = least(fanout, window + 64);
        uint64_t fits = 0; // a bit a child
        for (int at = window; at < end; at += L::width) {
            const auto values = L::load(value + at, least(L::width, end - at));
            Real total;
            const auto alone = L::exclusive(values, total);
            const auto sums = at ? L::add(alone, left) : alone;
            L::store(before + at - window, sums, L::width);
            fits |= uint64_t(L::at_most(sums, rest) & L::positive(values)) << (at - window);
            left += total;
        }
        if (fits || !window) {
            const int lane = last_bit(fits | 1);
            choice = {window + lane, before[lane]};
        }
        if (left > rest)
            break;
    }
    return choice;
}

// One level for `count` descents, whose loads overlap.
template <typename Real, int Fixed, bool Kept, bool Prefetch, bool Last>
void pass(const Level<Real> &level, const Real *below, int any_fanout, Real *rest, int64_t *node, int count) {
    const int fanout = Fixed ? Fixed : any_fanout;
    const Real *sums = Kept ? level.before : level.value;
#pragma GCC unroll 4
    for (int b = 0; b < count; ++b) {
        const int64_t first = node[b] * fanout;
        const Choice<Real> choice = Kept ? choose_kept<Real, Fixed>(sums + first, fanout, rest[b])
                                         : choose_scanned<Real, Fixed>(sums + first, fanout, rest[b]);
        node[b] = first + choice.child;
        if constexpr (!Last)
            rest[b] -= choice.before;
        if constexpr (Prefetch)
            for (int at = 0; at < fanout; at += 64 / int(sizeof(Real)))
                __builtin_prefetch(below + node[b] * fanout + at);
    }
}

template <typename Real, int Fixed>
void pass(const View<Real> &view, int depth, Real *rest, int64_t *node, int count) {
    const Level<Real> &level = view.level[depth];
    const Level<Real> &next = view.level[depth + 1]; // all null below the leaves
    const Real *below = next.before ? next.before : next.value;
    const int fanout = fanout_of<Real, Fixed>(view);
    // What the first-level cache holds needs no fetching ahead.
    const bool fetch = next.nodes * fanout * int64_t(sizeof(Real)) > 16384;
    const bool last = depth + 1 == view.levels;
    const auto chosen = level.before ? (last    ? pass<Real, Fixed, true, false, true>
                                        : fetch ? pass<Real, Fixed, true, true, false>
                                                : pass<Real, Fixed, true, false, false>)
                                     : (last    ? pass<Real, Fixed, false, false, true>
                                        : fetch ? pass<Real, Fixed, false, true, false>
                                                : pass<Real, Fixed, false, false, false>);
    chosen(level, below, fanout, rest, node, count);
}

// Descends with `count` <= in_flight prefixes, level by level; `indices` gets the leaves.
template <typename Real, int Fixed>
void descend(const View<Real> &view, const double *prefix, int64_t *indices, int count) {
    Real rest[in_flight], rounded_off[in_flight];
    for (int b = 0; b < count; ++b) {
        rest[b] = Real(prefix[b]);
        rounded_off[b] = Real(prefix[b] - double(rest[b]));
        indices[b] = 0;
    }
    for (int depth = 0; depth < view.levels; ++depth) {
        // With a float's 24 bits alone a prefix could not tell a million leaves apart evenly.
        if (sizeof(Real) < sizeof(double) && depth == view.refined_level)
            for (int b = 0; b < count; ++b)
                rest[b] = most(rest[b] + rounded_off[b], Real(0));
        pass<Real, Fixed>(view, depth, rest, indices, count);
    }
}

template <typename Real, int Fixed>
void find(const View<Real> &view, const double *prefix, int64_t *indices, int64_t count) {
    for (int64_t start = 0; start < count; start += in_flight)
        descend<Real, Fixed>(view, prefix + start, indices + start,
                             int(least<int64_t>(in_flight, count - start)));
}

// Eight xoshiro256++ generators side by side, their states
// spread from the seed by splitmix64 (Blackman, Vigna).
struct Uniform {
    static constexpr int lanes = 8;
    typedef uint64_t Words __attribute__((vector_size(8 * lanes)));
    typedef double Doubles __attribute__((vector_size(8 * lanes)));
    Words state[4];

    explicit Uniform(Seed seed) {
        const Words lane = {0, 1, 2, 3, 4, 5, 6, 7};
        for (uint64_t word = 0; word < 4; ++word) {
            Words z = seed.word[0] + 0x9e3779b97f4a7c15u * (lane + (word * lanes + 1));
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
            state[word] = (z ^ (z >> 31)) ^ (seed.word[1] + lane * word);
        }
    }

    static Words rotated(Words x, int by) { return (x << by) | (x >> (64 - by)); }

    // `lanes` doubles, uniform in [0, 1) with 52 bits.
    void next(double *out) {
        const Words drawn = rotated(state[0] + state[3], 23) + state[0];
        const Words shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = rotated(state[3], 45);
        const Words from_1_to_2 = (drawn >> 12) | 0x3ff0000000000000u;
        Doubles uniform;
        std::memcpy(&uniform, &from_1_to_2, sizeof uniform);
        uniform -= 1.0;
        std::memcpy(out, &uniform, sizeof uniform);
    }
};

template <typename Real, int Fixed>
void sample(const View<Real> &view, Seed seed, bool stratified, int64_t *indices, int64_t count,
            int64_t first, int64_t of) {
    static_assert(in_flight % Uniform::lanes == 0);
    Uniform uniform(seed);
    const double total = view.total;
    const double part = total / double(of);
    const double below_total = std::nextafter(total, 0.0);
    double prefix[in_flight];
    for (int64_t start = 0; start < count; start += in_flight) {
        const int size = int(least<int64_t>(in_flight, count - start));
        for (int b = 0; b < size; b += Uniform::lanes)
            uniform.next(prefix + b);
        if (stratified)
            for (int b = 0; b < size; ++b)
                prefix[b] = least((prefix[b] + double(first + start + b)) * part, below_total);
        else
            for (int b = 0; b < size; ++b)
                prefix[b] *= total;
        descend<Real, Fixed>(view, prefix, indices + start, size);
    }
}

// Writes the running sums of one node again, as `choose_scanned` would find them.
template <typename Real, int Fixed>
inline void keep_sums(const Level<Real> &level, int64_t node, int fanout) {
    using L = Lanes<Real>;
    Real left = 0;
    for (int at = 0; at < fanout; at += L::width) {
        const int lanes = least(L::width, fanout - at);
        const auto values = L::load(level.value + node * fanout + at, lanes);
        Real total;
        const auto before = L::add(L::exclusive(values, total), left);
        L::store(level.before + node * fanout + at,
                 L::select(L::positive(values), before, std::numeric_limits<Real>::infinity()), lanes);
        left += total;
    }
}

template <typename Real, int Fixed>
inline Real sum_node(const Level<Real> &level, int64_t node, int fanout) {
    using L = Lanes<Real>;
    Real sum = 0;
    for (int at = 0; at < fanout; at += L::width)
        sum += L::sum(L::load(level.value + node * fanout + at, least(L::width, fanout - at)));
    return sum;
}

// Some nodes of a level: those listed, or the first `count` ones where there is no list.
struct Nodes {
    const int64_t *list;
    int64_t count;

    int64_t operator[](int64_t t) const { return list ? list[t] : t; }
};

// out[node] for each of some nodes. Always by fours where four sums come out as one vector, as another order
// of adding would round in another way.
template <typename Real, int Fixed>
void sum_nodes(const Level<Real> &level, int any_fanout, Nodes nodes, Real *out) {
    using L = Lanes<Real>;
    const int fanout = Fixed ? Fixed : any_fanout;
    constexpr bool by_fours = Fixed == 16 && requires { L::four_sums(level.value, out, out, out, out); };
    if constexpr (by_fours) {
        const auto four = [&](const auto &node, Real *sums) {
            const auto at = [&](int i) { return level.value + node(i) * Fixed; };
            L::four_sums(at(0), at(1), at(2), at(3), sums);
        };
        const auto scatter = [&](const auto &node) {
            Real sums[4];
            four(node, sums);
            for (int i = 0; i < 4; ++i)
                out[node(i)] = sums[i];
        };
        int64_t t = 0;
        for (; t + 4 <= nodes.count && !nodes.list; t += 4)
            four([&](int i) { return t + i; }, out + t);
        for (; t + 4 <= nodes.count; t += 4)
            scatter([&](int i) { return nodes.list[t + i]; });
        if (t < nodes.count)
            scatter([&](int i) { return nodes[least(t + i, nodes.count - 1)]; });
    }
    if constexpr (!by_fours)
        for (int64_t t = 0; t < nodes.count; ++t)
            out[nodes[t]] = sum_node<Real, Fixed>(level, nodes[t], fanout);
}

// The sums of some nodes at `depth`, which are values of the level above, or the root's; their running sums
// are then out of date.
template <typename Real, int Fixed>
void sum_nodes(View<Real> &view, int depth, Nodes nodes) {
    Level<Real> &level = view.level[depth];
    sum_nodes<Real, Fixed>(level, view.fanout, nodes, depth ? view.level[depth - 1].value : &view.total);
    if (!level.before)
        return;
    const int64_t stale = level.stale_nodes + nodes.count;
    if (nodes.list && stale < level.nodes)
        std::memcpy(level.stale + level.stale_nodes, nodes.list, size_t(nodes.count) * sizeof(int64_t));
    level.stale_nodes = nodes.list ? least(stale, level.nodes) : level.nodes;
}

template <typename Real, int Fixed>
void keep(View<Real> &view) {
    const int fanout = fanout_of<Real, Fixed>(view);
    for (int depth = 0; depth < view.levels; ++depth) {
        Level<Real> &level = view.level[depth];
        const Nodes nodes{level.stale_nodes < level.nodes ? level.stale : nullptr, level.stale_nodes};
        for (int64_t t = 0; t < nodes.count; ++t)
            keep_sums<Real, Fixed>(level, nodes[t], fanout);
        level.stale_nodes = 0;
    }
}

// Visits `count` leaves in turn. Lists their nodes, of neighbours in one node only the first, and returns how
// many.
template <typename Real, int Fixed, typename Visit>
int64_t list_nodes(const View<Real> &view, const int64_t *leaves, int64_t count, int64_t *nodes,
                   Visit visit) {
    int64_t last = -1, listed = 0;
    for (int64_t b = 0; b < count; ++b) {
        visit(b);
        const int64_t node = parent_of<Real, Fixed>(view, leaves[b]);
        listed += node != last;
        nodes[listed - 1] = last = node;
    }
    return listed;
}

template <typename Real, int Fixed>
void to_parents(const View<Real> &view, int64_t *nodes, int64_t count) {
    for (int64_t t = 0; t < count; ++t)
        nodes[t] = parent_of<Real, Fixed>(view, nodes[t]);
}

// A batch is taken in parts, each of which is summed while its lines are in the first-level cache, up to a
// level of which the batch may touch all nodes: from there on it is summed as a whole. A node that is listed
// again is summed again, which costs less than to find that out.
template <typename Real, int Fixed, typename Priority>
void update(View<Real> &view, const int64_t *indices, const Priority *priorities, int64_t count, Step step) {
    constexpr int64_t part = update_part;
    Real *leaves = view.level[view.levels - 1].value;
    int whole = view.levels - 1;
    while (whole > 0 && view.level[whole].nodes > count)
        --whole;
    if (step != Step::sums)
        for (int64_t b = 0; b < least(part, count); ++b)
            __builtin_prefetch(leaves + indices[b], 1);
    int64_t touched = 0;
    for (int64_t start = 0; start < count; start += part) {
        const int64_t size = least(part, count - start);
        const int64_t *at = indices + start, *next = indices + least(start + part, count - size);
        int64_t *nodes = view.touched + touched;
        const auto write = [&](int64_t b) {
            __builtin_prefetch(leaves + next[b], 1);
            leaves[at[b]] = Real(priorities[start + b]);
        };
        const int64_t listed = step == Step::sums
                                   ? list_nodes<Real, Fixed>(view, at, size, nodes, [](int64_t) {})
                                   : list_nodes<Real, Fixed>(view, at, size, nodes, write);
        if (step == Step::leaves)
            continue;
        for (int depth = view.levels - 1; depth > whole; --depth) {
            sum_nodes<Real, Fixed>(view, depth, {nodes, listed});
            to_parents<Real, Fixed>(view, nodes, listed);
        }
        touched = least(touched + listed, view.level[whole].nodes);
    }
    // Nothing was listed of the leaves alone.
    for (int depth = whole; depth >= 0 && touched; --depth) {
        const int64_t all = view.level[depth].nodes;
        if (2 * touched >= all) { // to sum the next node costs half of what it costs to go to a listed one
            sum_nodes<Real, Fixed>(view, depth, {nullptr, all});
            touched = all;
        } else {
            sum_nodes<Real, Fixed>(view, depth, {view.touched, touched});
            to_parents<Real, Fixed>(view, view.touched, touched);
        }
    }
}

template <typename Real>
struct Dispatch {
    static void find(const View<Real> &view, const double *prefix, int64_t *indices, int64_t count) {
        (view.fanout == 16 ? sum_tree::find<Real, 16> : sum_tree::find<Real, 0>)(view, prefix, indices,
                                                                                 count);
    }
    static void sample(const View<Real> &view, Seed seed, bool stratified, int64_t *indices, int64_t count,
                       int64_t first, int64_t of) {
        (view.fanout == 16 ? sum_tree::sample<Real, 16>
                           : sum_tree::sample<Real, 0>)(view, seed, stratified, indices, count, first, of);
    }
    template <typename Priority>
    static void update(View<Real> &view, const int64_t *indices, const Priority *priorities, int64_t count,
                       Step step) {
        (view.fanout == 16 ? sum_tree::update<Real, 16, Priority>
                           : sum_tree::update<Real, 0, Priority>)(view, indices, priorities, count, step);
    }
    static void keep(View<Real> &view) {
        (view.fanout == 16 ? sum_tree::keep<Real, 16> : sum_tree::keep<Real, 0>)(view);
    }
};

template <typename Real>
const Kernels<Real> *table(const char *name) {
    using D = Dispatch<Real>;
    static const Kernels<Real> kernels{
        name, D::find, D::sample, D::template update<double>, D::template update<float>, D::keep};
    return &kernels;
}

} // namespace
} // namespace placerl::sum_tree
