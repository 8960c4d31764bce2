// Which way a product goes through its operands, chosen by measurement. A choice changes the time alone,
// never a bit: every element of C is the same chain of multiply-adds in all of them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <vector>

#include "learner/native/kernels.hpp"
#include "native/memory_block.hpp"

namespace placerl::learner {

// The ways of one machine: by which operand lies across its depth, and by how much work there is.
struct Blockings {
    static constexpr int PLAIN = 0, TURNED_B = 1, TURNED_A = 2; // a forward product, its two backward ones
    static constexpr int LAYOUTS = 3;
    static constexpr std::array<int, 2> SIZES = {32, 256}; // transitions of the products that are measured
    static constexpr int LARGE = 96;                       // from here the second size stands for a product
    static constexpr int LEAST = 16; // a product of fewer rows or columns is too small to copy anything

    std::array<Blocking, LAYOUTS * SIZES.size()> ways{}; // [layout][size]

    Blocking of(const MatrixProduct &p) const {
        if (p.rows < LEAST || p.columns < LEAST)
            return {};
        const bool turned_a = p.a_column != 1;
        const int layout = turned_a ? TURNED_A : p.b_column != 1 ? TURNED_B : PLAIN;
        const bool large = (turned_a ? p.depth : p.rows) >= LARGE;
        return ways[static_cast<std::size_t>(layout) * SIZES.size() + large];
    }
};

// The choices for a layout, the simplest first; what has no effect on it is left out.
inline std::vector<Blocking> choices(int layout) {
    std::vector<Blocking> made;
    for (const bool broad : {false, true})
        for (const bool pack_b : {false, true})
            for (const bool pack_a : {false, true})
                if ((!pack_b || layout != Blockings::TURNED_B) && (!pack_a || layout == Blockings::TURNED_A))
                    made.push_back({pack_a, pack_b, broad});
    return made;
}

// Times every choice in turns on products of 256 x 256 weights, for at most about `seconds` but at least 3
// rounds, and takes the least time of each, in processor time of this thread: a neighbour that takes the core
// or its caches away only adds. A choice that gains less than 2% is not taken over a simpler one.
inline Blockings measured_blockings(const Kernels &kernels, double seconds) {
    using Clock = std::chrono::steady_clock;
    constexpr int WIDTH = 256, LARGEST = Blockings::SIZES.back(), FEWEST_ROUNDS = 3;
    constexpr double GAIN = 0.98;
    static_assert(LARGEST <= WIDTH);
    const auto processor_s = [] {
#if defined(CLOCK_THREAD_CPUTIME_ID)
        timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
#else
        return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
#endif
    };
    // On huge pages, as the executor's arena.
    constexpr std::size_t PLACE = WIDTH * WIDTH, WHOLE = 4 * PLACE + MULTIPLY_WORKSPACE;
    const MemoryBlock block = zeroed_block(std::max(WHOLE * sizeof(float), HUGE_PAGE_BYTES), 4096);
    float *const a = reinterpret_cast<float *>(block.get()), *const b = a + PLACE, *const c = b + PLACE;
    float *const workspace = c + 2 * PLACE; // kernels may read beyond an operand's end
    for (std::size_t i = 0; i < 2 * PLACE; ++i)
        a[i] = static_cast<float>(i % 97) / 97.0f - 0.5f;

    struct Trial {
        MatrixProduct product;
        std::size_t place;
        double least_s;
    };
    std::vector<Trial> trials;
    for (int layout = 0; layout < Blockings::LAYOUTS; ++layout)
        for (std::size_t size = 0; size < Blockings::SIZES.size(); ++size)
            for (const Blocking &choice : choices(layout)) {
                const int batch = Blockings::SIZES[size];
                const bool turned_a = layout == Blockings::TURNED_A, turned_b = layout == Blockings::TURNED_B;
                MatrixProduct p{};
                p.rows = turned_a ? WIDTH : batch, p.depth = turned_a ? batch : WIDTH, p.columns = WIDTH;
                p.a = a, p.a_row = turned_a ? 1 : WIDTH, p.a_column = turned_a ? WIDTH : 1;
                p.b = b, p.b_row = turned_b ? 1 : WIDTH, p.b_column = turned_b ? WIDTH : 1;
                p.c = c, p.c_row = WIDTH;
                p.blocking = choice;
                trials.push_back(
                    {p, static_cast<std::size_t>(layout) * Blockings::SIZES.size() + size, HUGE_VAL});
            }
    const auto begin = Clock::now();
    for (int round = 0;
         round < FEWEST_ROUNDS || std::chrono::duration<double>(Clock::now() - begin).count() < seconds;
         ++round)
        for (Trial &trial : trials) {
            const double start = processor_s();
            kernels.multiply(trial.product, workspace);
            trial.least_s = std::min(trial.least_s, processor_s() - start);
        }
    Blockings found;
    std::array<double, Blockings::LAYOUTS * Blockings::SIZES.size()> best;
    best.fill(HUGE_VAL);
    for (const Trial &trial : trials)
        if (trial.least_s < GAIN * best[trial.place]) {
            best[trial.place] = trial.least_s;
            found.ways[trial.place] = trial.product.blocking;
        }
    return found;
}

} // namespace placerl::learner
