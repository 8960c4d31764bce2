// Every instruction set, width, layout and shape of the K-ary tree against sums made from scratch; and that
// no layout changes a bit, nor do the updates before the last one, nor one in two steps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "sum_tree/native/binary_tree.hpp"
#include "sum_tree/native/kary_tree.hpp"

using placerl::sum_tree::BinaryTree;
using placerl::sum_tree::KaryTree;
using placerl::sum_tree::Layout;
using placerl::sum_tree::Seed;
using placerl::sum_tree::Step;

namespace {

template <typename Real, typename Tree>
void check_found(Tree &tree, const std::vector<Real> &priorities, const std::vector<double> &prefixes) {
    std::vector<int64_t> found(prefixes.size());
    tree.find(prefixes.data(), found.data(), int64_t(prefixes.size()));
    std::vector<double> sums{0.0};
    for (const Real priority : priorities)
        sums.push_back(sums.back() + double(priority));
    const double slack = 2000 * double(std::numeric_limits<Real>::epsilon()) * sums.back();
    for (size_t b = 0; b < prefixes.size(); ++b) {
        CHECK(found[b] >= 0 && found[b] < int64_t(priorities.size()));
        CHECK(priorities[size_t(found[b])] > 0);
        CHECK(prefixes[b] >= sums[size_t(found[b])] - slack);
        CHECK(prefixes[b] <= sums[size_t(found[b]) + 1] + slack);
    }
}

template <typename Real>
void check_tree(int64_t capacity, int fanout, Layout layout, const char *simd) {
    KaryTree<Real> tree(capacity, fanout, layout, simd);
    KaryTree<Real> same(capacity, fanout, {}, simd);
    BinaryTree<Real> binary(capacity);
    std::mt19937_64 random(uint64_t(capacity * 1000 + fanout));
    std::vector<Real> expected(size_t(capacity), Real(0));
    std::vector<int64_t> all(expected.size());
    std::iota(all.begin(), all.end(), 0);
    for (const uint64_t most :
         {300, 10, 2000, 100}) { // some and all nodes of a level, in one part and in more
        std::vector<int64_t> indices(size_t(1 + random() % most));
        std::vector<double> priorities(indices.size());
        for (size_t b = 0; b < indices.size(); ++b) {
            // Now and then beside the one before, as inserted items are.
            indices[b] =
                b && random() % 4 ? (indices[b - 1] + 1) % capacity : int64_t(random() % uint64_t(capacity));
            priorities[b] =
                random() % 3 ? std::ldexp(double(random() % 1000 + 1), int(random() % 40) - 20) : 0;
            expected[size_t(indices[b])] = Real(priorities[b]);
        }
        // Two updates and no descent between them.
        const int64_t half = int64_t(indices.size()) / 2;
        tree.update(indices.data(), priorities.data(), half);
        tree.update(indices.data() + half, priorities.data() + half, int64_t(indices.size()) - half);
        same.update(indices.data(), priorities.data(), int64_t(indices.size()), Step::leaves);
        same.update(indices.data(), static_cast<const double *>(nullptr), int64_t(indices.size()),
                    Step::sums);
        binary.update(indices.data(), priorities.data(), int64_t(indices.size()));
        CHECK(tree.total() == same.total());
        KaryTree<Real> fresh(capacity, fanout, layout, simd);
        fresh.update(all.data(), expected.data(), capacity);
        for (int depth = 0; depth < tree.view().levels; ++depth) {
            const auto &level = tree.view().level[depth], &other = fresh.view().level[depth];
            CHECK(std::equal(level.value, level.value + level.nodes * fanout, other.value));
        }
        for (int64_t leaf = 0; leaf < capacity; ++leaf)
            CHECK(tree.priorities()[leaf] == expected[size_t(leaf)]);
        CHECK(std::abs(tree.total() - binary.total()) <= 1e-4 * binary.total());
        if (!(tree.total() > 0))
            continue;
        const double total = std::fmin(tree.total(), binary.total());
        std::vector<double> prefixes{0.0, std::nextafter(total, 0.0)};
        for (int b = 0; b < 150; ++b)
            prefixes.push_back(double(random() >> 11) * 0x1p-53 * total);
        check_found(tree, expected, prefixes);
        check_found(binary, expected, prefixes);
        std::vector<int64_t> drawn(130), drawn_same(drawn.size());
        for (const bool stratified : {false, true}) {
            const Seed seed{{random(), random()}};
            tree.sample(seed, stratified, drawn.data(), int64_t(drawn.size()));
            for (auto *other : {&same, &fresh}) {
                other->sample(seed, stratified, drawn_same.data(), int64_t(drawn.size()));
                CHECK(drawn == drawn_same);
            }
            for (const int64_t leaf : drawn)
                CHECK(leaf >= 0 && leaf < capacity && expected[size_t(leaf)] > 0);
        }
    }
}

} // namespace

int main() {
    for (const char *simd : {"avx512", "avx2", "portable"}) {
        if (!placerl::sum_tree::kernels<float>(simd))
            continue;
        for (const int fanout : {2, 3, 8, 15, 16, 17, 64, 65, 100, 256})
            for (const int64_t capacity : {1, 2, 16, 17, 300, 5000})
                for (const Layout layout :
                     {Layout{}, Layout{false, 0}, Layout{true, 64}, Layout{false, 1 << 30}}) {
                    check_tree<float>(capacity, fanout, layout, simd);
                    check_tree<double>(capacity, fanout, layout, simd);
                }
    }
    return 0;
}
