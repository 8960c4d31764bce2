// Executes step graphs that the Python side has lowered: a flat list of operations on one arena. Nothing is
// allocated while a program runs. Header-only, so that other primitives can run steps in a call of their own.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "learner/native/blocking.hpp"
#include "learner/native/kernels.hpp"
#include "learner/native/memory.hpp"
#include "learner/native/operations/elementwise.hpp"
#include "learner/native/operations/fixed_point.hpp"
#include "learner/native/operations/patches.hpp"
#include "learner/native/operations/pick.hpp"
#include "learner/native/operations/product.hpp"
#include "learner/native/operations/reduce.hpp"
#include "learner/native/team.hpp"
#include "native/subnormals.hpp"

namespace placerl::learner {

using Operation = std::variant<Elementwise, Product, Reduce, Pick, Patches, FixedPoint>;

struct Transfer {
    std::byte *place;
    std::size_t bytes;
    Type type;
};

// Thrown after a step whose results or whose new state are not finite, with their names. The state has been
// changed by then.
class NotFinite : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The name of a step's TD errors among its results.
inline constexpr const char *TD_ERRORS = "td_errors";

// The programs of a learner's variants, on one arena. With more than one thread, the large operations are cut
// into parts beforehand, one a thread; every element is computed as one thread would, so that the results are
// the same bits.
class Executor {
  public:
    // `part_ns`: what a part of an operation costs at least, so that handing it over pays. `multiplier`: of
    // products; the kernels' own, in float32, where null. `blockings`: which way they go.
    Executor(std::size_t arena_bytes, const Kernels *kernels, int threads = 1, double part_ns = 0,
             const Multiplier *multiplier = nullptr, const Blockings &blockings = {})
        : arena_(arena_bytes), blockings_(blockings),
          multiplier_(multiplier ? *multiplier
                                 : Multiplier{"float32", MULTIPLY_WORKSPACE, kernels->multiply,
                                              kernels->multiply_add_block}),
          workspaces_(workspace_bytes() * static_cast<std::size_t>(threads)), kernels_(kernels),
          part_ns_(part_ns) {
        if (threads > 1)
            team_ = std::make_unique<Team>(threads);
    }

    // What several threads may do at once of an operation, a part each.
    using Stage = std::vector<Operation>;

    struct Program {
        std::vector<Operation> operations;
        std::vector<std::vector<Stage>> stages; // of each operation; none where one thread does it
        std::vector<Transfer> inputs, outputs;
        std::vector<std::string> results; // the outputs' names; empty for one that may be any number
        // What did not fit its fixed-point format so far, by label; operations point to them.
        std::deque<std::int64_t> counts;
        bool shared = false; // whether any operation has stages
    };

    // Floats that are not finite only after a training has failed.
    struct StateLeaf {
        std::string name;
        const float *place;
        std::size_t count;
    };

    const Kernels &kernels() const { return *kernels_; }
    const Multiplier &multiplier() const { return multiplier_; }
    int threads() const { return team_ ? team_->threads() : 1; }
    std::byte *at(std::size_t offset) const { return arena_.at(offset); }
    int add_program() {
        programs_.emplace_back();
        return static_cast<int>(programs_.size()) - 1;
    }
    Program &program(int i) { return programs_.at(static_cast<std::size_t>(i)); }

    void add(int program, Operation operation) {
        Program &to = this->program(program);
        if (auto *made = std::get_if<Product>(&operation))
            made->product.blocking = blockings_.of(made->product);
        if (auto *made = std::get_if<Elementwise>(&operation)) {
            made->all_finite = kernels_->all_finite;
            made->overflowed = &overflowed_;
        }
        to.stages.push_back(stages_of(operation));
        to.shared |= !to.stages.back().empty();
        to.operations.push_back(std::move(operation));
    }

    // A call that uses the executor, from before it writes the inputs until it has read the outputs. There is
    // one of each, and one working memory, so that calls of two threads would overwrite each other's.
    class Claim {
      public:
        explicit Claim(Executor &executor) : executor_(executor) {
            if (executor.in_call_.test_and_set(std::memory_order_acquire))
                throw std::runtime_error("learner: found another call in progress; allowed: one at a time");
        }
        Claim(const Claim &) = delete;
        Claim &operator=(const Claim &) = delete;
        ~Claim() { executor_.in_call_.clear(std::memory_order_release); }

      private:
        Executor &executor_;
    };

    // Says that a step is near, so that threads that sleep are awake when it comes.
    void expect(const Program &program) const {
        if (program.shared)
            team_->wake();
    }

    // One step of the program on what its inputs hold.
    void run(const Program &program) const {
        const FlushSubnormals flush;
        if (!program.shared) {
            for (const Operation &operation : program.operations)
                run(operation, 0);
            return;
        }
        team_->wake();
        for (std::size_t i = 0; i < program.operations.size(); ++i)
            run_shared(program, i);
    }

    // What `require_finite` searches; empty for a state that may hold any number.
    void name_state(std::vector<StateLeaf> leaves) { state_ = std::move(leaves); }

    // Whether a result that is searched was NaN or infinite since the last call.
    bool take_overflowed() { return overflowed_.exchange(false, std::memory_order_relaxed); }

    // Throws NotFinite where a TD error of the last step of the program is NaN or infinite, or a number of
    // the state is. A loss may overflow alone, as Huber's does whose gradients are bounded: the state
    // decides.
    void require_finite(const Program &program) {
        std::string found;
        bool is_certain = false;
        for (std::size_t i = 0; i < program.results.size(); ++i)
            if (!program.results[i].empty() && program.outputs[i].type == Type::float32 &&
                !kernels_->all_finite(reinterpret_cast<const float *>(program.outputs[i].place),
                                      static_cast<long>(program.outputs[i].bytes / sizeof(float)))) {
                found += (found.empty() ? "" : ", ") + program.results[i];
                is_certain |= program.results[i] == TD_ERRORS;
            }
        const bool overflowed = take_overflowed();
        if (!is_certain && (overflowed || !found.empty())) {
            const std::string leaf = not_finite_leaf();
            if (leaf.empty())
                return;
            if (found.empty())
                found = leaf;
        }
        if (!found.empty())
            throw NotFinite(found);
    }

    // Seconds of each operation, the least of `steps` steps: noise only adds. The clock's own time is in
    // them.
    std::vector<double> profile(const Program &program, int steps) const {
        using Clock = std::chrono::steady_clock;
        const FlushSubnormals flush;
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
    // The name of the first leaf of the state that is not finite; empty if all are.
    std::string not_finite_leaf() const {
        for (const StateLeaf &leaf : state_)
            if (!kernels_->all_finite(leaf.place, static_cast<long>(leaf.count)))
                return leaf.name;
        return "";
    }

    std::vector<Stage> stages_of(const Operation &operation) const {
        std::vector<Stage> stages;
        if (const auto *fixed = std::get_if<FixedPoint>(&operation)) {
            if (threads() > 1)
                for (auto &parts : fixed->stages(threads(), part_ns_))
                    stages.emplace_back(parts.begin(), parts.end());
            return stages;
        }
        std::visit(
            [&](const auto &whole) {
                if constexpr (!std::is_same_v<std::decay_t<decltype(whole)>, FixedPoint>) {
                    int most = threads();
                    while (most > 1 && whole.cost_ns() < most * part_ns_)
                        --most;
                    if (most < 2)
                        return;
                    auto parts = whole.split(most);
                    if (parts.size() > 1)
                        stages.emplace_back(parts.begin(), parts.end());
                }
            },
            operation);
        return stages;
    }

    void run_shared(const Program &program, std::size_t i) const {
        if (program.stages[i].empty())
            return run(program.operations[i], 0);
        for (const Stage &parts : program.stages[i]) {
            const auto *fixed = std::get_if<FixedPoint>(&parts[0]);
            if (fixed && fixed->is_idle())
                continue;
            if (parts.size() == 1) {
                run(parts[0], 0);
                continue;
            }
            team_->run(static_cast<int>(parts.size()),
                       [&](int part) { run_part(parts[static_cast<std::size_t>(part)], part); });
            if (fixed)
                for (const Operation &part : parts)
                    std::get_if<FixedPoint>(&part)->count();
        }
    }

    void run(const Operation &operation, int thread) const {
        run_part(operation, thread);
        if (const auto *fixed = std::get_if<FixedPoint>(&operation))
            fixed->count();
    }

    void run_part(const Operation &operation, int thread) const {
        switch (operation.index()) {
        case 0:
            std::get_if<Elementwise>(&operation)->run();
            break;
        case 1:
            std::get_if<Product>(&operation)->run(multiplier_, workspace(thread));
            break;
        case 2:
            std::get_if<Reduce>(&operation)->run(*kernels_);
            break;
        case 3:
            std::get_if<Pick>(&operation)->run();
            break;
        case 4:
            std::get_if<Patches>(&operation)->run();
            break;
        default:
            std::get_if<FixedPoint>(&operation)->run();
        }
    }

    std::size_t workspace_bytes() const { return multiplier_.workspace * sizeof(float); }

    float *workspace(int thread) const {
        return reinterpret_cast<float *>(
            workspaces_.at(workspace_bytes() * static_cast<std::size_t>(thread)));
    }

    Arena arena_;
    Blockings blockings_;
    Multiplier multiplier_;
    Arena workspaces_;
    const Kernels *kernels_;
    double part_ns_;
    std::unique_ptr<Team> team_;   // null with one thread
    std::deque<Program> programs_; // where they are, as operations point to their counts
    std::atomic_flag in_call_;
    std::vector<StateLeaf> state_;
    std::atomic<bool> overflowed_{false}; // operations point to it
};

} // namespace placerl::learner
