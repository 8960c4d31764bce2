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

namespace placerl::learner {

using Operation = std::variant<Elementwise, Product, Reduce, Pick, Patches>;

struct Transfer {
    std::byte *place;
    std::size_t bytes;
    Type type;
};

// The programs of a learner's variants, on one arena.
class Executor {
  public:
    Executor(std::size_t arena_bytes, const Kernels *kernels) : arena_(arena_bytes), kernels_(kernels) {
        workspace_ = std::make_unique<Arena>(MULTIPLY_WORKSPACE * sizeof(float));
    }

    struct Program {
        std::vector<Operation> operations;
        std::vector<Transfer> inputs, outputs;
    };

    const Kernels &kernels() const { return *kernels_; }
    std::byte *at(std::size_t offset) const { return arena_.at(offset); }
    int add_program() {
        programs_.emplace_back();
        return static_cast<int>(programs_.size()) - 1;
    }
    Program &program(int i) { return programs_.at(static_cast<std::size_t>(i)); }

    // One step of the program on what its inputs hold.
    void run(const Program &program) const {
        for (const Operation &operation : program.operations)
            run(operation);
    }

    // Seconds of each operation, the least of `steps` steps: noise only adds. The clock's own time is in
    // them.
    std::vector<double> profile(const Program &program, int steps) const {
        using Clock = std::chrono::steady_clock;
        std::vector<double> seconds(program.operations.size(), HUGE_VAL);
        for (int s = 0; s < steps; ++s) {
            auto before = Clock::now();
            for (std::size_t i = 0; i < program.operations.size(); ++i) {
                run(program.operations[i]);
                const auto after = Clock::now();
                seconds[i] = std::min(seconds[i], std::chrono::duration<double>(after - before).count());
                before = after;
            }
        }
        return seconds;
    }

  private:
    void run(const Operation &operation) const {
        switch (operation.index()) {
        case 0:
            std::get_if<Elementwise>(&operation)->run();
            break;
        case 1:
            std::get_if<Product>(&operation)->run(*kernels_, reinterpret_cast<float *>(workspace_->at(0)));
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

    Arena arena_;
    std::unique_ptr<Arena> workspace_;
    const Kernels *kernels_;
    std::vector<Program> programs_;
};

} // namespace placerl::learner
