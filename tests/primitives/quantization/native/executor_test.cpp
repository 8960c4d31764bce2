// Fixed-point operations in the executor, shared by threads. To be run under the sanitizers: `make sanitize`.
#include "check.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "learner/native/program.hpp"
#include "quantization/native/elementwise.hpp"
#include "quantization/native/layer_operations.hpp"
#include "quantization/native/moves.hpp"
#include "quantization/native/product.hpp"
#include "quantization/native/reductions.hpp"

namespace quantization = placerl::quantization;
namespace learner = placerl::learner;
using quantization::Kind;

namespace {

constexpr int64_t LOWEST = std::numeric_limits<int32_t>::min(), HIGHEST = std::numeric_limits<int32_t>::max();

struct Left {
    std::vector<int32_t> memory;
    std::vector<float> floats;
    std::vector<int64_t> counts;
    bool operator==(const Left &) const = default;
};

// A layer forwards and backwards, its update, and what else a step has, some times over. `bits`: of the
// numbers, which choose how products are done. `coded`: whether they are read as codes.
Left stepped(const quantization::Kernels *kernels, int threads, int bits, bool coded) {
    constexpr int BATCH = 70, IN = 90, OUT = 130;
    constexpr long X = 0, W = X + BATCH * IN, B = W + OUT * IN, Y = B + OUT, G = Y + BATCH * OUT,
                   DW = G + BATCH * OUT, DB = DW + OUT * IN, MOVED = DB + OUT, END = MOVED + BATCH * OUT;
    std::vector<int32_t> memory(END + 64);
    std::mt19937 random(3);
    std::uniform_int_distribution<int32_t> number(-(1 << bits), (1 << bits) - 1);
    for (long i = 0; i < Y; ++i)
        memory[static_cast<size_t>(i)] = number(random);
    for (long i = G; i < DW; ++i)
        memory[static_cast<size_t>(i)] = number(random) >> 4;
    std::vector<int64_t> index(BATCH * OUT);
    for (size_t i = 0; i < index.size(); ++i)
        index[i] = static_cast<int64_t>(random() % OUT);
    std::vector<float> moments(2 * OUT * IN, 1.0f);
    const double rate = 0.01, root = 0.7;
    int32_t *m = memory.data();

    learner::Executor executor(4096, learner::portable_kernels(), threads);
    const int program = executor.add_program();
    auto &counts = executor.program(program).counts;
    counts.resize(16);
    size_t label = 0;
    const auto add = [&](std::shared_ptr<quantization::Operation> operation) {
        learner::FixedPoint made{std::move(operation), {}};
        for (size_t i = 0; i < made.operation->saturated.size(); ++i)
            made.counts.push_back(&counts.at(label++));
        executor.add(program, std::move(made));
    };

    quantization::Source x(kernels, m + X, BATCH, IN, IN, 1), w(kernels, m + W, OUT, IN, IN, 1),
        g(kernels, m + G, BATCH, OUT, OUT, 1);
    const quantization::Reading as_it_is, codes{true, 0.37, -9000, 20000};
    const auto product = [&](quantization::Matrix a, quantization::Matrix b, long c, int columns,
                             int places) {
        auto made = std::make_shared<quantization::Product>(
            kernels, a, b, quantization::Rounding{m + c, columns, 1, false, 0, 0, LOWEST, HIGHEST});
        made->read(coded ? codes : as_it_is, as_it_is, coded, places,
                   coded ? 1.0 / 3000 : std::ldexp(1.0, -places));
        return made;
    };
    const int places = 2 * bits - 20;
    auto forward = product({m + X, BATCH, IN, IN, 1, true, &x, true},
                           {m + W, IN, OUT, 1, IN, false, &w, true}, Y, OUT, places);
    forward->then_rectify(m + B, 3);
    add(forward);
    auto backward = product({m + G, OUT, BATCH, 1, OUT, false, &g, true},
                            {m + X, BATCH, IN, IN, 1, true, &x, false}, DW, IN, places);
    add(backward);
    add(std::make_shared<quantization::SumRows>(
        kernels, m + G, OUT, BATCH, OUT, quantization::Rounding{m + DB, 0, 1, false, 2, 0, LOWEST, HIGHEST}));
    add(std::make_shared<quantization::Adam>(kernels,
                                             quantization::AdamUpdate{m + W, nullptr, m + DW, moments.data(),
                                                                      moments.data() + OUT * IN, &rate, &root,
                                                                      0x1p-20, 0x1p-18, 0x1p20, -0x1p26,
                                                                      0x1p26, 0.9, 0.1, 0.99, 0.01, 1e-8, 0},
                                             OUT * IN));
    auto halves = std::make_shared<quantization::Elementwise>(kernels, std::vector<long>{BATCH * OUT}, 1);
    halves->add_input({reinterpret_cast<char *>(m + Y), Kind::fixed, 0.5, 0, 0, {1}, 0});
    halves->add_instruction({placerl::Op::tanh, 0, 0, -1, -1});
    halves->add_output({reinterpret_cast<char *>(m + G), Kind::fixed, 5e9, -0x1p31, 0x1p31 - 1, {1}, 0});
    add(halves);
    const auto at = [&](long offset, std::vector<long> strides) {
        return quantization::Numbers{reinterpret_cast<char *>(m + offset), Kind::fixed, std::move(strides)};
    };
    const quantization::Conversion finer{true, false, -3, 1, 1, LOWEST, HIGHEST};
    add(std::make_shared<quantization::Gather>(
        std::vector<long>{BATCH, OUT}, at(Y, {OUT, 0}), 1, OUT,
        quantization::Numbers{reinterpret_cast<char *>(index.data()), Kind::int64, {OUT, 1}},
        at(MOVED, {OUT, 1}), finer));
    add(std::make_shared<quantization::Reduce>(
        quantization::Reduction::max, std::vector<long>{OUT}, at(MOVED, {1}), at(B, {1}),
        std::vector<long>{BATCH}, std::vector<long>{OUT},
        quantization::Conversion{true, true, 9, 1, 1, LOWEST, HIGHEST}));
    for (int i = 0; i < 5; ++i)
        executor.run(executor.program(program));
    Left left{memory, moments, {counts.begin(), counts.end()}};
    for (const auto &made : {forward, backward})
        for (const auto &side : made->widest)
            left.counts.insert(left.counts.end(), {side.low, side.high});
    return left;
}

void gives_the_same_bits_and_counts() {
    const quantization::Kernels *sets[] = {quantization::portable_kernels(), quantization::avx2_kernels(),
                                           quantization::avx512_kernels(),
                                           quantization::avx512vnni_kernels()};
    for (const int bits : {9, 15, 19, 26, 30}) // one digit, two, three, 32-bit multipliers, sums of 128 bits
        for (const bool coded : {false, true}) {
            const Left one = stepped(sets[0], 1, bits, coded);
            for (const quantization::Kernels *kernels : sets)
                for (int threads = 1; kernels && threads <= 4; ++threads)
                    CHECK(stepped(kernels, threads, bits, coded) == one);
        }
}

// The exact sum of what may lie anywhere in the range.
void sums_exactly() {
    std::mt19937_64 random(5);
    for (int round = 0; round < 2000; ++round) {
        // Pairs that cancel, and one number that is left.
        std::vector<double> numbers;
        for (int i = 0; i < round % 40; ++i) {
            const double x = std::bit_cast<double>(random());
            if (std::isfinite(x))
                numbers.insert(numbers.end(), {x, -x});
        }
        double left = std::bit_cast<double>(random());
        left = std::isfinite(left) ? left : 0.5;
        numbers.push_back(left);
        std::shuffle(numbers.begin(), numbers.end(), random);
        CHECK(quantization::sum_exactly(numbers.data(), static_cast<long>(numbers.size())) == left);
    }
}

} // namespace

int main() {
    gives_the_same_bits_and_counts();
    sums_exactly();
}
