// Iterations of PPO (2.1) without Python: a rollout with the current policy, values and advantages of its
// samples, and K epochs of gradient steps on minibatches of M of them. Everything is in the order of the loop
// in Python, and only what networks compute may differ in its last bits.
#pragma once

#include <limits>
#include <string>

#include "training/native/mailbox.hpp"
#include "training/native/rollout.hpp"

namespace placerl::training {

enum class SampleColumn : int { observation, action, log_probability, advantage, value_target };

// A kind of gradient step: its program, the column of each of its inputs, and which of its outputs estimates
// the KL divergence, -1 if none does.
struct SampleStep {
    int program;
    std::vector<SampleColumn> inputs;
    int kl;
};

// Of the acting executor.
struct ActingPrograms {
    int explore;       // N observations and their random numbers; gives N actions and log-probabilities
    int evaluate;      // T N observations; gives their values
    int evaluate_ends; // N observations; gives their values
};

struct IterationSettings {
    int64_t epochs, batch_size; // K, M
    // Nats: once the estimate is larger, an iteration's other steps are of the second kind. Infinity: never.
    double stop_kl;
    Advantages advantages;
};

class Iterations {
  public:
    // `acting`, in the layout of `actor`, gets the numbers of `weights`, which the gradient steps change.
    // `steps`: the full one, and the one that leaves the policy as it is.
    Iterations(Rollout rollout, learner::Executor &actor, ActingPrograms programs, std::vector<Block> acting,
               learner::Executor &learner, std::vector<SampleStep> steps, std::vector<Block> weights,
               IterationSettings settings)
        : rollout_(std::move(rollout)), actor_(actor), learner_(learner),
          explore_(actor.program(programs.explore)), evaluate_(actor.program(programs.evaluate)),
          evaluate_ends_(actor.program(programs.evaluate_ends)), acting_(std::move(acting)),
          weights_(std::move(weights)), steps_(std::move(steps)), settings_(std::move(settings)),
          last_(steps_.size()) {
        const size_t rows = size_t(rollout_.samples()), envs = size_t(rollout_.count());
        const size_t seen = size_t(rollout_.width()) * sizeof(float), number = sizeof(float);
        for (std::vector<float> *column :
             {&value_, &next_value_, &log_probability_, &advantage_, &value_target_})
            column->resize(rows);
        expect("explore", explore_, {envs * seen, 0}, {envs * rollout_.action_bytes(), envs * number});
        expect("evaluate", evaluate_, {rows * seen}, {rows * number});
        expect("evaluate ends", evaluate_ends_, {envs * seen}, {envs * number});
        const size_t batch = size_t(settings_.batch_size);
        for (const SampleStep &step : steps_) {
            std::vector<size_t> inputs;
            for (const SampleColumn column : step.inputs)
                inputs.push_back(batch * row_bytes(column));
            expect("step", learner_.program(step.program), inputs);
        }
    }

    const Rollout &rollout() const { return rollout_; }
    std::vector<Episode> take_episodes() { return rollout_.take_episodes(); }
    // Random numbers of one action.
    int64_t draws() const { return int64_t(explore_.inputs[1].bytes / sizeof(float)) / rollout_.count(); }
    int64_t epochs() const { return settings_.epochs; }
    int64_t gradient_steps() const { return gradient_steps_; }

    struct Spent {
        double environment = 0, infer = 0, prepare = 0, learner = 0; // seconds
    };
    const Spent &spent() const { return spent_; }

    // `draws` (T, N, draws()); `orders` (K, T N), a permutation of the samples for each epoch. Throws
    // std::domain_error, with the learner as it was, where a number of the samples is not finite, and
    // learner::NotFinite after the first gradient step whose results are not.
    void run(const float *draws, const int64_t *orders) {
        Laps laps;
        for (size_t i = 0; i < weights_.size(); ++i)
            copy(weights_[i], acting_[i]);
        collect(draws, laps);
        prepare();
        laps.lap(spent_.prepare);
        learn(orders);
        laps.lap(spent_.learner);
    }

    // One number a sample, (T N,), or as `Rollout` has them: of the last iteration.
    const std::byte *column(SampleColumn column) const {
        switch (column) {
        case SampleColumn::observation:
            return bytes(rollout_.observations());
        case SampleColumn::action:
            return rollout_.actions();
        case SampleColumn::log_probability:
            return bytes(log_probability_.data());
        case SampleColumn::advantage:
            return bytes(advantage_.data());
        default:
            return bytes(value_target_.data());
        }
    }

    size_t row_bytes(SampleColumn column) const {
        if (column == SampleColumn::observation)
            return size_t(rollout_.width()) * sizeof(float);
        return column == SampleColumn::action ? rollout_.action_bytes() : sizeof(float);
    }

    // The outputs of the last step of each kind, where they are one number; else NaN. Empty before the first.
    const std::vector<std::vector<float>> &last_outputs() const { return last_; }
    // The kind of the last step.
    size_t last_kind() const { return last_kind_; }

  private:
    using Program = learner::Executor::Program;

    template <typename T>
    static const std::byte *bytes(const T *data) {
        return reinterpret_cast<const std::byte *>(data);
    }

    // Inputs of 0 bytes are as large as they are; without `outputs` these are not looked at.
    static void expect(const char *name, const Program &program, const std::vector<size_t> &inputs,
                       const std::vector<size_t> &outputs = {}) {
        bool fits = program.inputs.size() == inputs.size() &&
                    (outputs.empty() || program.outputs.size() == outputs.size());
        for (size_t i = 0; fits && i < inputs.size(); ++i)
            fits = !inputs[i] || program.inputs[i].bytes == inputs[i];
        for (size_t i = 0; fits && i < outputs.size(); ++i)
            fits = program.outputs[i].bytes == outputs[i];
        if (!fits)
            throw std::invalid_argument(std::string(name) + ": found other inputs or outputs");
    }

    void collect(const float *draws, Laps &laps) {
        const learner::Transfer &seen = explore_.inputs[0], &noise = explore_.inputs[1],
                                &chosen = explore_.outputs[0], &probable = explore_.outputs[1];
        const size_t numbers = noise.bytes / sizeof(float);
        rollout_.collect(
            [&](const float *observations, int64_t t, std::byte *actions) {
                std::memcpy(seen.place, observations, seen.bytes);
                std::memcpy(noise.place, draws + size_t(t) * numbers, noise.bytes);
                actor_.run(explore_);
                std::memcpy(actions, chosen.place, chosen.bytes);
                std::memcpy(log_probability_.data() + t * rollout_.count(), probable.place, probable.bytes);
            },
            spent_.infer, spent_.environment, laps);
    }

    void prepare() {
        std::memcpy(evaluate_.inputs[0].place, rollout_.observations(), evaluate_.inputs[0].bytes);
        actor_.run(evaluate_);
        const size_t rows = size_t(rollout_.samples()), envs = size_t(rollout_.count());
        std::memcpy(value_.data(), evaluate_.outputs[0].place, rows * sizeof(float));
        // Within an episode the next value is that of the environment's next sample.
        std::copy(value_.begin() + std::ptrdiff_t(envs), value_.end(), next_value_.begin());
        std::fill(next_value_.end() - std::ptrdiff_t(envs), next_value_.end(), 0.0f);
        end_values();
        settings_.advantages.estimate(rollout_, value_.data(), next_value_.data(), advantage_.data());
        for (size_t s = 0; s < rows; ++s)
            value_target_[s] = advantage_[s] + value_[s];
        constexpr const char *names[] = {"observation", "action", "log_probability", "advantage",
                                         "value_target"};
        for (int c = 0; c < 5; ++c) {
            const auto which = static_cast<SampleColumn>(c);
            if ((which != SampleColumn::action || !rollout_.discrete()) &&
                !learner_.kernels().all_finite(reinterpret_cast<const float *>(column(which)),
                                               long(rows * row_bytes(which) / sizeof(float))))
                throw std::domain_error(std::string("batch/") + names[c] +
                                        ": found NaN or infinity; allowed: finite numbers");
        }
    }

    // Values of the states where samples break off, N at a time.
    void end_values() {
        const auto &ends = rollout_.open_ends();
        const size_t envs = size_t(rollout_.count()), row = row_bytes(SampleColumn::observation);
        for (size_t first = 0; first < ends.size(); first += envs) {
            const size_t count = std::min(envs, ends.size() - first);
            for (size_t k = 0; k < count; ++k)
                std::memcpy(evaluate_ends_.inputs[0].place + k * row, ends[first + k].observation, row);
            actor_.run(evaluate_ends_);
            const auto *values = reinterpret_cast<const float *>(evaluate_ends_.outputs[0].place);
            for (size_t k = 0; k < count; ++k)
                next_value_[size_t(ends[first + k].sample)] = values[k];
        }
    }

    void learn(const int64_t *orders) {
        size_t kind = 0;
        const int64_t rows = rollout_.samples();
        for (int64_t k = 0; k < settings_.epochs; ++k, orders += rows)
            for (int64_t first = 0; first + settings_.batch_size <= rows; first += settings_.batch_size) {
                const SampleStep &step = steps_[kind];
                const Program &program = learner_.program(step.program);
                for (size_t i = 0; i < step.inputs.size(); ++i)
                    gather(step.inputs[i], orders + first, program.inputs[i].place);
                learner_.run(program);
                ++gradient_steps_;
                learner_.require_finite(program);
                keep(program, last_[kind]);
                last_kind_ = kind;
                if (step.kl >= 0 && double(last_[kind][size_t(step.kl)]) > settings_.stop_kl)
                    kind = 1;
            }
    }

    void gather(SampleColumn which, const int64_t *order, std::byte *to) const {
        const std::byte *from = column(which);
        const size_t bytes = row_bytes(which), batch = size_t(settings_.batch_size);
        if (bytes == sizeof(float)) {
            const auto *numbers = reinterpret_cast<const float *>(from);
            auto *out = reinterpret_cast<float *>(to);
            for (size_t b = 0; b < batch; ++b)
                out[b] = numbers[order[b]];
            return;
        }
        for (size_t b = 0; b < batch; ++b)
            std::memcpy(to + b * bytes, from + size_t(order[b]) * bytes, bytes);
    }

    static void keep(const Program &program, std::vector<float> &numbers) {
        numbers.resize(program.outputs.size());
        for (size_t o = 0; o < numbers.size(); ++o) {
            const learner::Transfer &output = program.outputs[o];
            numbers[o] = output.type == learner::Type::float32 && output.bytes == sizeof(float)
                             ? *reinterpret_cast<const float *>(output.place)
                             : std::numeric_limits<float>::quiet_NaN();
        }
    }

    Rollout rollout_;
    learner::Executor &actor_, &learner_;
    const Program &explore_, &evaluate_, &evaluate_ends_;
    const std::vector<Block> acting_, weights_;
    const std::vector<SampleStep> steps_;
    IterationSettings settings_;
    std::vector<std::vector<float>> last_;
    std::vector<float> value_, next_value_, log_probability_, advantage_, value_target_; // (T N,)
    int64_t gradient_steps_ = 0;
    size_t last_kind_ = 0;
    Spent spent_;
};

} // namespace placerl::training
