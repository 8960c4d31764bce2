// Rounds of off-policy training without Python: V vector steps with the learner's weights, the insertion of
// their transitions, and G gradient steps, in the order and with the numbers of the loop in Python.
#pragma once

#include <utility>

#include "learner/fused/steps.hpp"
#include "training/native/actor.hpp"
#include "training/native/executor_parts.hpp"
#include "training/native/rollout.hpp"

namespace placerl::training {

class Rounds : public fused::Steps {
  public:
    struct Acting {
        environments::VectorEnv &environments; // reset, and with the next episode in the same step
        const float *first;                    // their observations, (N, width)
        int64_t most_vector_steps;             // of a round, or of a `fill`
        int64_t vector_steps, gradient_steps;  // V, G
        int64_t environment_steps;             // that count as taken before
        int explore; // program of the executor: an observation and its random numbers give its action
        TransitionColumns columns;
    };
    struct Spent {
        double environment = 0, infer = 0, insert = 0, step = 0; // seconds
    };

    Rounds(replay::ConcurrentReplay &replay, learner::Executor &executor, int64_t batch_size,
           double priority_max, std::vector<fused::Source> sources, std::vector<std::size_t> td_outputs,
           const Acting &acting)
        : Steps(replay, executor, batch_size, priority_max, std::move(sources), std::move(td_outputs)),
          rollout_(acting.environments, acting.first, acting.most_vector_steps), acting_(acting),
          explore_(executor.program(acting.explore)), items_(replay.columns().size()),
          next_(size_t(rollout_.samples() * rollout_.width())) {
        rollout_.count_from(acting.environment_steps);
        const std::vector<std::pair<size_t, size_t>> expected = {
            {acting.columns.observation, size_t(rollout_.width()) * sizeof(float)},
            {acting.columns.action, rollout_.action_bytes()},
            {acting.columns.reward, sizeof(float)},
            {acting.columns.next_observation, size_t(rollout_.width()) * sizeof(float)},
            {acting.columns.terminated, sizeof(bool)}};
        bool fits = items_.size() == expected.size() && explore_.inputs.size() == 2 &&
                    explore_.outputs.size() == 1 && explore_.inputs[0].bytes == expected[0].second &&
                    explore_.outputs[0].bytes == expected[1].second;
        for (const auto &[column, bytes] : expected)
            fits = fits && replay.columns().at(column).row_bytes == bytes;
        if (!fits)
            throw std::invalid_argument("replay: found other columns than the environments and the policy");
    }

    Rollout &rollout() { return rollout_; }
    const Rollout &rollout() const { return rollout_; }
    const Spent &spent() const { return spent_; }
    // Random numbers of one action.
    int64_t draws() const { return int64_t(explore_.inputs[1].bytes / sizeof(float)); }
    int64_t vector_steps() const { return acting_.vector_steps; }
    int64_t gradient_steps() const { return acting_.gradient_steps; }

    // The next `run` is of whole rounds, with these random numbers of their actions, (rounds, V, N, draws()).
    void act_with(std::vector<float> numbers) { numbers_ = std::move(numbers); }

    // As `Steps::run`; std::domain_error also where an observation or an action is not finite.
    void run(const Run &run, std::atomic<int64_t> &samples_drawn) {
        const std::vector<float> numbers = std::exchange(numbers_, {});
        if (numbers.empty())
            return Steps::run(run, samples_drawn);
        const size_t each = size_t(acting_.vector_steps * rollout_.count() * draws());
        const size_t steps = size_t(acting_.gradient_steps);
        Laps laps;
        for (size_t round = 0; round * steps < run.programs.size(); ++round) {
            explore(numbers.data() + round * each, laps);
            insert();
            laps.lap(spent_.insert);
            take(run, round * steps, (round + 1) * steps, samples_drawn);
            laps.lap(spent_.step);
        }
    }

    // Vector steps with these actions, (steps, N, ...), and the insertion of their transitions.
    void fill(int64_t steps, const std::byte *given) {
        const size_t bytes = size_t(rollout_.count()) * rollout_.action_bytes();
        const auto choose = [&](const float *, int64_t t, std::byte *actions) {
            std::memcpy(actions, given + size_t(t) * bytes, bytes);
        };
        Laps laps;
        rollout_.collect(steps, choose, spent_.infer, spent_.environment, laps);
        insert();
        laps.lap(spent_.insert);
    }

  private:
    // V vector steps with actions that the policy chooses; `numbers` (V, N, draws()).
    void explore(const float *numbers, Laps &laps) {
        const learner::Transfer &seen = explore_.inputs[0], &drawn = explore_.inputs[1],
                                &chosen = explore_.outputs[0];
        const auto choose = [&](const float *observations, int64_t, std::byte *actions) {
            const int64_t count = rollout_.count(), width = rollout_.width();
            if (!executor().kernels().all_finite(observations, long(count * width)))
                throw std::domain_error("observation: found NaN or infinity; allowed: finite numbers");
            for (int64_t i = 0; i < count; ++i, numbers += draws(), actions += chosen.bytes) {
                std::memcpy(seen.place, observations + i * width, seen.bytes);
                std::memcpy(drawn.place, numbers, drawn.bytes);
                executor().run(explore_);
                std::memcpy(actions, chosen.place, chosen.bytes);
            }
        };
        rollout_.collect(acting_.vector_steps, choose, spent_.infer, spent_.environment, laps);
    }

    // Inserts the transitions of the last vector steps, with the largest priority so far.
    void insert() {
        rollout_.copy_next_observations(next_.data());
        const auto bytes = [](const auto *data) { return reinterpret_cast<const char *>(data); };
        items_[acting_.columns.observation] = bytes(rollout_.observations());
        items_[acting_.columns.action] = bytes(rollout_.actions());
        items_[acting_.columns.reward] = bytes(rollout_.rewards());
        items_[acting_.columns.next_observation] = bytes(next_.data());
        items_[acting_.columns.terminated] = bytes(rollout_.terminated());
        replay().insert(items_.data(), rollout_.taken_samples(), nullptr);
    }

    Rollout rollout_;
    const Acting acting_;
    const learner::Executor::Program &explore_;
    std::vector<const char *> items_; // by column, of one insertion
    std::vector<float> next_;         // next observations of an insertion
    std::vector<float> numbers_;
    Spent spent_;
};

} // namespace placerl::training
