// Policies and gradient steps on the native executor; `primitives.training` lowers the graphs to its
// programs.
#pragma once

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "learner/native/program.hpp"
#include "learner/relaxed/presampled.hpp"
#include "training/native/parts.hpp"

namespace placerl::training {

// How the random numbers of exploring actions are drawn: "noise", standard normal, or a bonus that makes a
// random action win with a probability that falls linearly (`DQN.draw_exploration`).
struct Exploration {
    bool epsilon_greedy;
    double first, last;
    int64_t steps;

    double epsilon(int64_t step) const {
        return first + std::min(double(step) / double(steps), 1.0) * (last - first);
    }
};

class ExecutorPolicy : public Policy {
  public:
    // The program's first input is the observations, its second the random numbers; its output the actions.
    ExecutorPolicy(learner::Executor &executor, int program, std::vector<Block> weights,
                   Exploration exploration, int64_t count)
        : executor_(executor), program_(executor.program(program)), weights_(std::move(weights)),
          exploration_(exploration), count_(count) {
        if (program_.inputs.size() != 2 || program_.outputs.size() != 1)
            throw std::invalid_argument("policy: allowed: a program of two inputs and one output");
    }

    void take(Mailbox &mailbox) override { mailbox.take(seen_, weights_); }
    void explore(const float *observations, int64_t environment_step, Random &random, int64_t *discrete,
                 float *continuous) override {
        const learner::Transfer &input = program_.inputs[0], &draws = program_.inputs[1],
                                &out = program_.outputs[0];
        std::memcpy(input.place, observations, input.bytes);
        auto *numbers = reinterpret_cast<float *>(draws.place);
        const auto size = int64_t(draws.bytes / sizeof(float)), width = size / count_;
        if (exploration_.epsilon_greedy) {
            std::fill(numbers, numbers + size, 0.0f);
            const double epsilon = exploration_.epsilon(environment_step);
            for (int64_t i = 0; i < count_; ++i)
                if (random.uniform() < epsilon)
                    numbers[i * width + random.below(width)] = 1e30f;
        } else {
            random.normal(numbers, size);
        }
        executor_.run(program_);
        if (out.type == learner::Type::int64)
            std::memcpy(discrete, out.place, out.bytes);
        else
            std::memcpy(continuous, out.place, out.bytes);
    }

  private:
    learner::Executor &executor_;
    const learner::Executor::Program &program_;
    const std::vector<Block> weights_;
    const Exploration exploration_;
    const int64_t count_;
    uint64_t seen_ = 0;
};

// What an input of a phase's program is filled with.
struct PhaseInput {
    enum class Kind : int { column, weight, noise, given } kind;
    int index; // of the replay's column
    std::string name;
    int64_t limit; // as of `learner::in_range`
};

struct Phase {
    int program;
    std::vector<PhaseInput> inputs;
};

// An output of a phase that a later phase reads: the mean over the learners, or the learner's own.
struct Link {
    int from_phase, output, to_phase, input;
    bool averaged;
};

struct StepPlan {
    std::vector<Phase> phases;
    std::vector<Link> links;
    int td_output; // of the last phase
};

class ExecutorStep : public GradientStep {
  public:
    // `ahead`, `beside`: as `relaxed::Presampled` takes them.
    ExecutorStep(replay::ConcurrentReplay &replay, learner::Executor &executor, std::vector<StepPlan> plans,
                 int64_t batch_size, double priority_max, std::vector<Block> acting, std::size_t ahead,
                 bool beside)
        : executor_(executor), plans_(std::move(plans)), acting_(std::move(acting)),
          batches_(replay, batch_size, priority_max, taken_columns(replay), executor.kernels().all_finite,
                   ahead, beside) {}

    const std::vector<Block> &acting() const { return acting_; }
    int phases(int variant) const override { return int(plans_[size_t(variant)].phases.size()); }

    void sample(int variant, int64_t number, const BetaSchedule &beta, Random &random) override {
        while (batches_.missing()) {
            const sum_tree::Seed seed{{random.next(), random.next()}};
            batches_.ask(seed, beta.at(number + int64_t(batches_.waiting())));
        }
        batch_ = batches_.take();
        if (!batch_)
            throw replay::empty_replay();
        for (const Phase &phase : plans_[size_t(variant)].phases) {
            const auto &program = executor_.program(phase.program);
            for (size_t i = 0; i < phase.inputs.size(); ++i)
                fill(phase.inputs[i], program.inputs[i], random);
        }
    }

    void run(int variant, int phase) override { executor_.run(program(variant, phase)); }

    void average(int variant, int phase, const std::vector<GradientStep *> &all) override {
        for (const Link &link : plans_[size_t(variant)].links) {
            if (link.from_phase != phase)
                continue;
            const learner::Transfer &to = program(variant, link.to_phase).inputs[size_t(link.input)];
            const learner::Transfer &own = program(variant, phase).outputs[size_t(link.output)];
            if (!link.averaged) {
                std::memcpy(to.place, own.place, to.bytes);
                continue;
            }
            auto *sum = reinterpret_cast<float *>(to.place);
            const size_t count = to.bytes / sizeof(float);
            const float share = 1.0f / float(all.size());
            // In the order of the learners, so that each gets the same bits.
            for (size_t rank = 0; rank < all.size(); ++rank) {
                const auto &other = static_cast<const ExecutorStep &>(*all[rank]);
                const auto *from = reinterpret_cast<const float *>(
                    other.program(variant, phase).outputs[size_t(link.output)].place);
                if (rank == 0)
                    for (size_t i = 0; i < count; ++i)
                        sum[i] = from[i] * share;
                else
                    for (size_t i = 0; i < count; ++i)
                        sum[i] += from[i] * share;
            }
        }
    }

    void update(int variant) override {
        const StepPlan &plan = plans_[size_t(variant)];
        const auto &last = executor_.program(plan.phases.back().program);
        const learner::Transfer &td_errors = last.outputs[size_t(plan.td_output)];
        executor_.require_finite(last);
        std::memcpy(batch_->td_errors.data(), td_errors.place, td_errors.bytes);
        batches_.give_back();
    }
    void settle() override { batches_.drop(); }
    relaxed::ReplayManager &manager() { return batches_.manager(); }

    void publish(Mailbox &mailbox) override { mailbox.publish(acting_); }

  private:
    const learner::Executor::Program &program(int variant, int phase) const {
        return executor_.program(plans_[size_t(variant)].phases[size_t(phase)].program);
    }

    // How the programs, which agree, take the replay's columns.
    std::vector<relaxed::TakenColumn> taken_columns(const replay::ConcurrentReplay &replay) const {
        std::vector<relaxed::TakenColumn> columns(replay.columns().size());
        for (const StepPlan &plan : plans_)
            for (const Phase &phase : plan.phases)
                for (size_t i = 0; i < phase.inputs.size(); ++i) {
                    const PhaseInput &input = phase.inputs[i];
                    if (input.kind != PhaseInput::Kind::column)
                        continue;
                    const auto c = size_t(input.index);
                    const auto type = executor_.program(phase.program).inputs[i].type;
                    columns[c] = {input.name, type, replay.columns()[c].row_bytes == 1, input.limit};
                }
        return columns;
    }

    void fill(const PhaseInput &input, const learner::Transfer &to, Random &random) const {
        switch (input.kind) {
        case PhaseInput::Kind::given:
            return; // by `average`
        case PhaseInput::Kind::noise:
            return random.normal(reinterpret_cast<float *>(to.place), int64_t(to.bytes / sizeof(float)));
        case PhaseInput::Kind::weight:
            std::memcpy(to.place, batch_->weights.data(), to.bytes);
            return;
        case PhaseInput::Kind::column:
            std::memcpy(to.place, batch_->columns[size_t(input.index)].data(), to.bytes);
            return;
        }
    }

    learner::Executor &executor_;
    const std::vector<StepPlan> plans_;
    const std::vector<Block> acting_;
    relaxed::Presampled batches_;
    relaxed::Batch *batch_ = nullptr; // of the present step
};

} // namespace placerl::training
