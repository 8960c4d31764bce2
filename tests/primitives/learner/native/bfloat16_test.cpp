// Products in bfloat16 on instructions for pairs, and on tiles, which are emulated so that no processor has
// to have them, against the definition in float32's instructions. To be run under the sanitizers: `make
// sanitize`.
#include "check.hpp"

#if defined(__AVX512BF16__)
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "learner/native/bfloat16.hpp"

#define PLACERL_SIMD "avx512bf16"
#include "learner/native/kernels_body.hpp"

namespace placerl::learner {
namespace {

#include "learner/native/gemm_pairs.hpp"
#include "learner/native/gemm_tiles.hpp"

// What AMX does, a number at a time.
struct Emulated {
    struct Configured {};
    static inline std::uint32_t tiles[8][TILE_SIDE][TILE_SIDE];
    template <int TILE>
    static void zero() {
        std::memset(tiles[TILE], 0, sizeof tiles[TILE]);
    }
    template <int TILE>
    static void load(const void *from, long bytes) {
        for (int i = 0; i < TILE_SIDE; ++i)
            std::memcpy(tiles[TILE][i], static_cast<const std::byte *>(from) + i * bytes,
                        sizeof tiles[TILE][i]);
    }
    template <int TILE>
    static void store(void *to, long bytes) {
        for (int i = 0; i < TILE_SIDE; ++i)
            std::memcpy(static_cast<std::byte *>(to) + i * bytes, tiles[TILE][i], sizeof tiles[TILE][i]);
    }
    template <int SUMS, int A, int B>
    static void multiply_add() {
        for (int i = 0; i < TILE_SIDE; ++i)
            for (int k = 0; k < TILE_SIDE; ++k)
                for (int j = 0; j < TILE_SIDE; ++j) {
                    const std::uint32_t a = tiles[A][i][k], b = tiles[B][k][j];
                    float sum = std::bit_cast<float>(tiles[SUMS][i][j]);
                    sum += std::bit_cast<float>(a << 16) * std::bit_cast<float>(b << 16);
                    sum += std::bit_cast<float>(a & 0xffff0000) * std::bit_cast<float>(b & 0xffff0000);
                    tiles[SUMS][i][j] = std::bit_cast<std::uint32_t>(sum);
                }
    }
};

// Every order of memory, size and epilogue: the sums differ by their order alone, so by less than `depth`
// roundings.
void agrees_with_the_definition(int trials) {
    std::mt19937 random(0);
    std::normal_distribution<float> normal;
    std::vector<float> workspace(std::max({PAIRS_WORKSPACE, TILES_WORKSPACE, MULTIPLY_WORKSPACE}));
    const auto up_to_size = [&](unsigned most) { return 1 + static_cast<int>(random() % most); };
    for (int trial = 0; trial < trials; ++trial) {
        const int rows = up_to_size(trial % 7 ? 70 : 600), columns = up_to_size(90);
        const int depth = up_to_size(trial % 5 ? 90 : 1300);
        const auto numbers = [&](int count) {
            std::vector<float> made(static_cast<std::size_t>(count));
            std::generate(made.begin(), made.end(), [&] { return normal(random); });
            return made;
        };
        const auto a = numbers(2 * rows * depth), b = numbers(depth * columns);
        const auto column_bias = numbers(columns), row_bias = numbers(rows), mask = numbers(rows * columns);
        MatrixProduct p{};
        p.rows = rows, p.columns = columns, p.depth = depth, p.c_row = columns;
        const std::pair<long, long> orders[] = {{depth, 1}, {1, rows}, {2 * depth, 2}};
        std::tie(p.a_row, p.a_column) = orders[random() % 3];
        const bool turned = random() % 2;
        p.b_row = turned ? 1 : columns, p.b_column = turned ? depth : 1;
        p.a = a.data(), p.b = b.data();
        const unsigned bias = random() % 3; // at most one of the two
        p.column_bias = bias == 1 ? column_bias.data() : nullptr;
        p.row_bias = bias == 2 ? row_bias.data() : nullptr;
        p.mask = random() % 2 ? mask.data() : nullptr;
        p.rectify = random() % 2;
        std::vector<float> expected(static_cast<std::size_t>(rows * columns)), found(expected.size());
        p.c = expected.data();
        multiply<Rounded>(p, workspace.data());
        for (const auto function :
             {static_cast<void (*)(const MatrixProduct &, float *)>(&multiply_pairs),
              static_cast<void (*)(const MatrixProduct &, float *)>(&multiply_tiles<Emulated>)}) {
            std::fill(found.begin(), found.end(), NAN);
            p.c = found.data();
            function(p, workspace.data());
            const float tolerance = 1e-6f * (10 + static_cast<float>(depth));
            for (std::size_t i = 0; i < found.size(); ++i)
                CHECK(std::fabs(found[i] - expected[i]) <= tolerance);
        }
    }
}

// To nearest, to even where two are as near; infinity stays, what is too large becomes it, NaN stays NaN.
void rounds_to_nearest_even() {
    const auto rounded = [](std::uint32_t bits) {
        float out[LANES];
        store(out, to_bfloat16(splat(std::bit_cast<float>(bits))));
        return std::bit_cast<std::uint32_t>(out[0]);
    };
    CHECK(rounded(0x3f808000) == 0x3f800000);
    CHECK(rounded(0x3f818000) == 0x3f820000);
    CHECK(rounded(0x3f808001) == 0x3f810000);
    CHECK(rounded(0x3f807fff) == 0x3f800000);
    CHECK(rounded(0xbf818000) == 0xbf820000);
    CHECK(rounded(0x7f7fffff) == 0x7f800000);
    CHECK(rounded(0x7f800000) == 0x7f800000);
    CHECK(std::isnan(std::bit_cast<float>(rounded(0x7f800001))));
    CHECK(rounded(0x007fffff) == 0); // too small to be normal, though it would round up to a normal number
    // Beside NaN, a pair's other number is what it was.
    const auto nan = splat(std::bit_cast<float>(0x7fc12345u)), one = splat(1.0f);
    CHECK((static_cast<std::uint32_t>(_mm512_cvtsi512_si32(paired(one, nan))) & 0xffff) == 0x3f80);
    // As the processor's own conversion has it.
    std::mt19937 random(1);
    for (int i = 0; i < 10000; ++i) {
        const auto bits = static_cast<std::uint32_t>(random());
        const float x = std::bit_cast<float>(bits);
        if (!std::isnormal(x))
            continue;
        const __m512i pair = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(splat(0.0f).v, splat(x).v));
        CHECK(static_cast<std::uint32_t>(_mm512_cvtsi512_si32(pair)) << 16 == rounded(bits));
    }
}

} // namespace
} // namespace placerl::learner

int main() {
    using namespace placerl::learner;
    if (!avx512bf16_multiplier())
        return 77; // skipped: this processor lacks the instructions
    rounds_to_nearest_even();
    agrees_with_the_definition(300);
}
#else
int main() { return 77; } // skipped: the compiler lacks the instructions
#endif
