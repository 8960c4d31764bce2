// Executes step graphs that the Python side has lowered: a flat list of operations on one arena. Nothing is
// allocated while a program runs. Header-only, so that other primitives can run steps in a call of their own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <variant>
#include <vector>

#include "learner/native/kernels.hpp"
#include "learner/native/memory.hpp"
#include "learner/native/operations/elementwise.hpp"
#include "learner/native/operations/patches.hpp"
#include "learner/native/operations/pick.hpp"
#include "learner/native/operations/product.hpp"
#include "learner/native/operations/reduce.hpp"
#include "learner/native/team.hpp"

namespace placerl::learner {

using Operation = std::variant<Elementwise, Product, Reduce, Pick, Patches>;

struct Transfer {
    std::byte *place;
    std::size_t bytes;
    Type type;
};

// The programs of a learner's variants, on one arena. With more than one thread, the large operations are cut
// into parts beforehand, one a thread; every element is computed as one thread would, so that the results are
// the same bits.
class Executor {
  public:
    // `part_ns`: what a part of an operation costs at least, so that handing it over pays.
    Executor(std::size_t arena_bytes, const Kernels *kernels, int threads = 1, double part_ns = 0)
        : arena_(arena_bytes),
          workspaces_(MULTIPLY_WORKSPACE * sizeof(float) * static_cast<std::size_t>(threads)),
          kernels_(kernels), part_ns_(part_ns) {
        if (threads > 1)
            team_ = std::make_unique<Team>(threads);
    }

    struct Program {
        std::vector<Operation> operations;
        std::vector<std::vector<Operation>> parts; // of each operation; none where one thread does it
        std::vector<Transfer> inputs, outputs;
        bool shared = false; // whether any operation has parts
    };

    const Kernels &kernels() const { return *kernels_; }
    int threads() const { return team_ ? team_->threads() : 1; }
    std::byte *at(std::size_t offset) const { return arena_.at(offset); }
    int add_program() {
        programs_.emplace_back();
        return static_cast<int>(programs_.size()) - 1;
    }
    Program &program(int i) { return programs_.at(static_cast<std::size_t>(i)); }

    void add(int program, Operation operation) {
        Program &to = this->program(program);
        to.parts.push_back(parts_of(operation));
        to.shared |= !to.parts.back().empty();
        to.operations.push_back(std::move(operation));
    }

    // Says that a step is near, so that threads that sleep are awake when it comes.
    void expect(const Program &program) const {
        if (program.shared)
            team_->wake();
    }

    // One step of the program on what its inputs hold.
    void run(const Program &program) const {
        if (!program.shared) {
            for (const Operation &operation : program.operations)
                run(operation, 0);
            return;
        }
        team_->wake();
        for (std::size_t i = 0; i < program.operations.size(); ++i)
            run_shared(program, i);
    }

    // Seconds of each operation, the least of `steps` steps: noise only adds. The clock's own time is in
    // them.
    std::vector<double> profile(const Program &program, int steps) const {
        using Clock = std::chrono::steady_clock;
        std::vector<double> seconds(program.operations.size(), HUGE_VAL);
        for (int s = 0; s < steps; ++s) {
            auto before = Clock::now();
            for (std::size_t i = 0; i < program.operations.size(); ++i) {
                run_shared(program, i);
                const auto after = Clock::now();
                seconds[i] = std::min(seconds[i], std::chrono::duration<double>(after - before).count());
                before = after;
            }
        }
        return seconds;
    }

  private:
    std::vector<Operation> parts_of(const Operation &operation) const {
        return std::visit(
            [&](const auto &whole) {
                std::vector<Operation> parts;
                int most = threads();
                while (most > 1 && whole.cost_ns() < most * part_ns_)
                    --most;
                if (most > 1)
                    for (auto &part : whole.split(most))
                        parts.emplace_back(std::move(part));
                if (parts.size() == 1)
                    parts.clear();
                return parts;
            },
            operation);
    }

    void run_shared(const Program &program, std::size_t i) const {
        const std::vector<Operation> &parts = program.parts[i];
        if (parts.empty())
            return run(program.operations[i], 0);
        team_->run(static_cast<int>(parts.size()),
                   [&](int part) { run(parts[static_cast<std::size_t>(part)], part); });
    }

    void run(const Operation &operation, int thread) const {
        switch (operation.index()) {
        case 0:
            std::get_if<Elementwise>(&operation)->run();
            break;
        case 1:
            std::get_if<Product>(&operation)->run(*kernels_, workspace(thread));
            break;
        case 2:
            std::get_if<Reduce>(&operation)->run(*kernels_);
            break;
        case 3:
            std::get_if<Pick>(&operation)->run();
            break;
        default:
            std::get_if<Patches>(&operation)->run();
        }
    }

    float *workspace(int thread) const {
        return reinterpret_cast<float *>(workspaces_.at(0)) +
               MULTIPLY_WORKSPACE * static_cast<std::size_t>(thread);
    }

    Arena arena_, workspaces_;
    const Kernels *kernels_;
    double part_ns_;
    std::unique_ptr<Team> team_; // null with one thread
    std::vector<Program> programs_;
};

} // namespace placerl::learner
