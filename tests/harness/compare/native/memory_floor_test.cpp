// The memory floor loads exactly the values on the paths that it is given, at every fanout and layout.
#include <algorithm>
#include <vector>

#include "check.hpp"
#include "harness/compare/native/memory_floor.hpp"

using placerl::sum_tree::KaryTree;
using placerl::sum_tree::Layout;
using placerl::sum_tree::load_paths;

namespace {

// Levels without running sums: a path's values are the sums from the root's child down to the leaf.
template <bool Dependent>
void adds_the_sums_of_each_path(int64_t capacity, int fanout) {
    KaryTree<double> tree(capacity, fanout, Layout{true, 0});
    std::vector<int64_t> leaves;
    std::vector<double> priorities;
    for (int64_t leaf = 0; leaf < capacity; ++leaf) {
        leaves.push_back(leaf);
        priorities.push_back(double(leaf % 7));
    }
    tree.update(leaves.data(), priorities.data(), capacity);
    double expected = 0;
    for (int64_t width = 1; width < capacity; width *= fanout)
        for (int64_t leaf = 0; leaf < capacity; ++leaf)
            for (int64_t other = leaf / width * width; other < std::min(capacity, (leaf / width + 1) * width);
                 ++other)
                expected += priorities[size_t(other)];
    CHECK(load_paths<Dependent>(tree.view(), leaves.data(), capacity) == expected);
}

} // namespace

int main() {
    for (const int fanout : {2, 3, 16, 17})
        for (const int64_t capacity : {2, 16, 17, 300}) {
            adds_the_sums_of_each_path<true>(capacity, fanout);
            adds_the_sums_of_each_path<false>(capacity, fanout);
        }
    return 0;
}
