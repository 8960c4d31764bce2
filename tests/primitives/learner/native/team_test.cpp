// A team of threads, and steps that it shares. To be run under the sanitizers: `make sanitize`.
#include "check.hpp"

#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>

#include <sys/wait.h>

#include "learner/native/program.hpp"

using namespace placerl::learner;
using placerl::Op;

namespace {

// Every part once, whatever the threads are doing, and what was written before and by the parts is seen.
void does_every_part_once(int threads, int rounds) {
    Team team(threads);
    std::vector<long> done(64);
    long before = 0, expected = 0;
    for (int round = 0; round < rounds; ++round) {
        before = round;
        const int parts = 2 + round % (threads - 1);
        team.run(parts, [&](int part) { done[static_cast<std::size_t>(part)] += before + part; });
        for (int part = 0; part < parts; ++part)
            expected += round + part;
        if (round % 100 == 50)
            std::this_thread::sleep_for(std::chrono::milliseconds(1)); // the workers fall asleep
    }
    CHECK(std::accumulate(done.begin(), done.end(), 0L) == expected);
}

// The workers do work: the caller's part waits for all the others.
void works_at_once(int threads) {
    Team team(threads);
    for (int round = 0; round < 100; ++round) {
        std::atomic<int> begun{0};
        team.run(threads, [&](int part) {
            ++begun;
            while (part == 0 && begun < threads)
                std::this_thread::yield();
        });
        CHECK(begun == threads);
    }
}

void throws_what_the_first_part_threw() {
    Team team(4);
    for (int round = 0; round < 100; ++round) {
        std::string said;
        try {
            team.run(4, [&](int part) {
                if (part >= 1 + round % 3)
                    throw std::out_of_range(std::to_string(part));
            });
        } catch (const std::out_of_range &error) {
            said = error.what();
        }
        CHECK(said == std::to_string(1 + round % 3));
    }
}

// A second caller does its work alone.
void serves_one_caller_at_a_time() {
    Team team(3);
    std::atomic<long> total{0};
    auto call = [&] {
        for (int round = 0; round < 500; ++round)
            team.run(3, [&](int part) { total += part; });
    };
    std::thread other(call);
    call();
    other.join();
    CHECK(total == 2 * 500 * 3);
}

// A process without the workers does their parts, and does not wait for them at the end.
void works_in_a_forked_process() {
    auto team = std::make_unique<Team>(3);
    std::atomic<int> done{0};
    auto once = [&] {
        done = 0;
        team->run(3, [&](int) { ++done; });
        return done == 3;
    };
    CHECK(once());
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const bool works = once() && once();
        team.reset();
        std::_Exit(works ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(once());
}

// relu(X W + b), its sums over the batch, and its square roots, on memory of an executor's own.
std::vector<float> step(int threads) {
    constexpr long ROWS = 150, COLUMNS = 70, DEPTH = 33, BLOCK = 512;
    constexpr long X = 0, W = 8192, B = 16384, Y = 20480, SUMS = 40960, ROOTS = 45056, REGISTERS = 65536;
    Executor executor(100000 * sizeof(float), portable_kernels(), threads);
    auto *memory = reinterpret_cast<float *>(executor.at(0));
    for (long i = 0; i < Y; ++i)
        memory[i] = static_cast<float>(i % 17 - 8);
    const int program = executor.add_program();

    Product product;
    product.product = {{ROWS, COLUMNS, DEPTH, memory + X, DEPTH, 1, memory + W, 1, DEPTH},
                       memory + Y,
                       COLUMNS,
                       memory + B,
                       nullptr,
                       true,
                       nullptr,
                       {}};
    executor.add(program, product);

    Reduce sums{};
    sums.reduction = Reduction::sum;
    sums.x = {executor.at(Y * sizeof(float)), Type::float32, {1}};
    sums.y = {executor.at(SUMS * sizeof(float)), Type::float32, {1}};
    sums.shape = {COLUMNS};
    sums.over = {ROWS};
    sums.over_strides = {COLUMNS};
    sums.choose_form();
    executor.add(program, sums);

    auto loop = [&](Op op) { return executor.kernels().elementwise[static_cast<int>(op)][0]; };
    Elementwise roots;
    roots.shape = {ROWS * COLUMNS};
    roots.count = ROWS * COLUMNS;
    roots.block = BLOCK;
    roots.element_ns = 1;
    roots.registers = memory + REGISTERS;
    roots.registers_size = BLOCK;
    roots.loads = {{{executor.at(Y * sizeof(float)), Type::float32, {1}}, memory + REGISTERS, false}};
    const Elementwise::Argument loaded{memory + REGISTERS, 0}, result{memory + ROOTS, 1};
    roots.instructions = {{loop(Op::sqrt), result, loaded, loaded, loaded}};
    executor.add(program, roots);

    for (int i = 0; i < 20; ++i)
        executor.run(executor.program(program));
    return std::vector<float>(memory + Y, memory + REGISTERS);
}

void gives_the_same_bits() {
    const auto one = step(1);
    for (int threads = 2; threads <= 5; ++threads) {
        const auto several = step(threads);
        CHECK(std::memcmp(one.data(), several.data(), one.size() * sizeof(float)) == 0);
    }
}

// An operation whose blocks read what others write stays whole.
void leaves_whole_what_has_an_order() {
    Executor executor(1 << 20, portable_kernels(), 2);
    auto *memory = reinterpret_cast<float *>(executor.at(0));
    const auto negate = executor.kernels().elementwise[static_cast<int>(Op::neg)][0];
    auto parts = [&](long from, long to) {
        Elementwise group;
        group.shape = {4096};
        group.count = 4096;
        group.block = 512;
        group.element_ns = 1;
        const Elementwise::Argument source{memory + from, 1}, target{memory + to, 1};
        group.instructions = {{negate, target, source, source, source}};
        return group.split(2).size();
    };
    CHECK(parts(0, 0) == 2);
    CHECK(parts(0, 4096) == 2);
    CHECK(parts(0, 16) == 1);
}

// Subnormal results are zero in every thread of a team while the caller has them so.
void flushes_in_every_thread(int threads) {
    Team team(threads);
    std::vector<float> products(static_cast<std::size_t>(threads), -1.0f);
    volatile float small = 1e-30f, factor = 1e-10f;
    {
        const placerl::FlushSubnormals flush;
        std::atomic<int> begun{0};
        team.run(threads, [&](int part) {
            ++begun;
            while (part == 0 && begun < threads) // so that no part is the caller's but the first
                std::this_thread::yield();
            products[static_cast<std::size_t>(part)] = small * factor;
        });
    }
    for (const float product : products)
        CHECK(product == 0);
    CHECK(small * factor > 0);
}

} // namespace

int main() {
    for (const int threads : {2, 3, 8}) {
        does_every_part_once(threads, 1000);
        works_at_once(threads);
        flushes_in_every_thread(threads);
    }
    throws_what_the_first_part_threw();
    serves_one_caller_at_a_time();
    gives_the_same_bits();
    leaves_whole_what_has_an_order();
    works_in_a_forked_process();
}
