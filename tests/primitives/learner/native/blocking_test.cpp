// Every way of a product, on every instruction set, gives the bits of the simplest one, whatever its size,
// the order of its operands in memory and what follows it; and what is measured is one of the choices. To be
// run under the sanitizers, as vectors are read and written at the ends of blocks: `make sanitize`.
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "check.hpp"
#include "learner/native/blocking.hpp"

namespace {

using namespace placerl::learner;

void agree(const Kernels &kernels, int trials) {
    std::mt19937 random(0);
    std::normal_distribution<float> normal;
    for (int trial = 0; trial < trials; ++trial) {
        const auto size = [&](int most) { return 1 + static_cast<int>(random() % unsigned(most)); };
        const int rows = size(trial % 7 ? 70 : 600), columns = size(90), depth = size(trial % 5 ? 90 : 1300);
        // Room up to the next multiple of 16, as the executor's arrays have it, and none beyond.
        const auto numbers = [&](int count) {
            std::vector<float> made(static_cast<std::size_t>((count + 15) / 16 * 16));
            for (float &x : made)
                x = normal(random);
            return made;
        };
        const auto a = numbers(2 * rows * depth), b = numbers(depth * columns);
        const auto column_bias = numbers(columns), row_bias = numbers(rows), mask = numbers(rows * columns);
        MatrixProduct p{};
        p.rows = rows, p.columns = columns, p.depth = depth, p.c_row = columns;
        const std::pair<long, long> orders[] = {{depth, 1}, {1, rows}, {2 * depth, 2}, {2, 2 * rows}};
        std::tie(p.a_row, p.a_column) = orders[random() % 4];
        const bool turned = random() % 2;
        p.b_row = turned ? 1 : columns, p.b_column = turned ? depth : 1;
        p.a = a.data(), p.b = b.data();
        const unsigned bias = random() % 3; // at most one of the two
        p.column_bias = bias == 1 ? column_bias.data() : nullptr;
        p.row_bias = bias == 2 ? row_bias.data() : nullptr;
        p.mask = random() % 2 ? mask.data() : nullptr;
        p.rectify = random() % 2;
        std::vector<float> workspace(MULTIPLY_WORKSPACE), expected, found;
        for (int way = 0; way < 8; ++way) {
            std::vector<float> c(static_cast<std::size_t>((rows * columns + 15) / 16 * 16), NAN);
            p.c = c.data();
            p.blocking = {(way & 1) != 0, (way & 2) != 0, (way & 4) != 0};
            kernels.multiply(p, workspace.data());
            (way ? found : expected).assign(c.begin(), c.begin() + rows * columns);
            if (way)
                CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0);
        }
        for (int i = 0; i < rows * columns; ++i)
            CHECK(!std::isnan(expected[static_cast<std::size_t>(i)]));
    }
}

void measures_a_choice(const Kernels &kernels) {
    const Blockings found = measured_blockings(kernels, 0.0);
    for (std::size_t i = 0; i < found.ways.size(); ++i) {
        bool known = false;
        for (const Blocking &choice : choices(static_cast<int>(i / Blockings::SIZES.size())))
            known |= choice.pack_a == found.ways[i].pack_a && choice.pack_b == found.ways[i].pack_b &&
                     choice.broad == found.ways[i].broad;
        CHECK(known);
    }
}

// The way is chosen by the operand that lies across the depth, and by the size.
void chooses_by_layout_and_size() {
    Blockings blockings;
    for (std::size_t i = 0; i < blockings.ways.size(); ++i)
        blockings.ways[i] = {(i & 1) != 0, (i & 2) != 0, (i & 4) != 0};
    const auto way = [&](int rows, int depth, bool turned_a, bool turned_b) {
        MatrixProduct p{};
        p.rows = rows, p.columns = 64, p.depth = depth;
        p.a_row = turned_a ? 1 : depth, p.a_column = turned_a ? rows : 1;
        p.b_row = turned_b ? 1 : 64, p.b_column = turned_b ? depth : 1;
        const Blocking found = blockings.of(p);
        return found.pack_a + 2 * found.pack_b + 4 * found.broad;
    };
    CHECK(way(64, 300, false, false) == 0 && way(300, 64, false, false) == 1);
    CHECK(way(64, 300, false, true) == 2 && way(300, 64, false, true) == 3);
    CHECK(way(300, 64, true, false) == 4 && way(64, 300, true, false) == 5);
    CHECK(way(8, 300, true, true) == 0);
}

} // namespace

int main() {
    for (const Kernels *kernels : {portable_kernels(), avx2_kernels(), avx512_kernels()})
        if (kernels) {
            agree(*kernels, 200);
            measures_a_choice(*kernels);
        }
    chooses_by_layout_and_size();
    return 0;
}
