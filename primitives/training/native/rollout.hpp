// What N environments observe in at most T steps under one policy, and the advantages of T N samples.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "environments/native/vector_env.hpp"
#include "learner/native/program.hpp"
#include "training/native/parts.hpp"

namespace placerl::training {

class Rollout {
  public:
    // A sample after which the environment's next observation is not that of the next sample, and whose
    // episode has not terminated: its next value is that of `observation`, `width()` numbers.
    struct OpenEnd {
        int64_t sample;
        const float *observation;
    };

    // `environments` have been reset, and begin their next episode in the same step; `first` (N, width) are
    // their observations.
    Rollout(environments::VectorEnv &environments, const float *first, int64_t length)
        : environments_(environments), length_(length), taken_(length), count_(environments.count()),
          width_(environments.spec().observation_width),
          actions_(environments.spec().discrete() ? 0 : environments.spec().action_width) {
        const environments::Spec &spec = environments.spec();
        if (environments.autoreset() != environments::Autoreset::same_step)
            throw std::invalid_argument("environments: allowed: those that reset in the same step");
        const size_t rows = size_t(samples()), envs = size_t(count_), width = size_t(width_);
        observations_.resize((rows + envs) * width);
        std::memcpy(following(), first, envs * width * sizeof(float));
        final_.resize(rows * width);
        discrete_.resize(actions_ ? 0 : rows);
        continuous_.resize(rows * size_t(actions_));
        applied_.resize(envs * size_t(actions_));
        reward_.resize(rows), rewards_.resize(envs), returns_.resize(envs);
        terminated_ = std::make_unique<bool[]>(rows);
        truncated_ = std::make_unique<bool[]>(rows);
        for (int a = 0; a < actions_; ++a) {
            const float low = spec.action_low.at(size_t(a)), high = spec.action_high.at(size_t(a));
            low_.push_back(low), half_.push_back((high - low) / 2);
            scaled_ |= low != -1 || high != 1;
        }
    }

    int64_t length() const { return length_; }
    int64_t count() const { return count_; }
    int64_t width() const { return width_; }
    int64_t samples() const { return length_ * count_; }
    bool discrete() const { return !actions_; }
    int64_t environment_steps() const { return environment_steps_; }
    void count_from(int64_t environment_steps) { environment_steps_ = environment_steps; }
    std::vector<Episode> take_episodes() { return std::exchange(episodes_, {}); }

    // Vector steps of the last `collect`, T', and the samples that they gave.
    int64_t taken() const { return taken_; }
    int64_t taken_samples() const { return taken_ * count_; }

    // (T', N, ...)
    const float *observations() const { return observations_.data(); }
    const std::byte *actions() const {
        return actions_ ? reinterpret_cast<const std::byte *>(continuous_.data())
                        : reinterpret_cast<const std::byte *>(discrete_.data());
    }
    // Of an action that the policy gives: an int64, or numbers that are applied clipped to [-1, 1].
    size_t action_bytes() const { return actions_ ? size_t(actions_) * sizeof(float) : sizeof(int64_t); }
    const float *rewards() const { return reward_.data(); }
    const bool *terminated() const { return terminated_.get(); }
    const bool *truncated() const { return truncated_.get(); }
    // (T', N, width): the observation after each sample's action, in its own episode.
    void copy_next_observations(float *to) const {
        const int64_t rows = taken_samples();
        std::memcpy(to, observations_.data() + count_ * width_, size_t(rows * width_) * sizeof(float));
        for (int64_t s = 0; s < rows; ++s)
            if (terminated_[s] | truncated_[s])
                std::copy_n(final_.data() + s * width_, width_, to + s * width_);
    }
    // In the order of the samples; until the next `collect`.
    const std::vector<OpenEnd> &open_ends() const { return open_ends_; }

    // All T steps. `act(observations, t, actions)` chooses the N actions of step t. Throws std::domain_error
    // for an action that is NaN.
    template <typename Act>
    void collect(const Act &act, double &infer_s, double &environment_s, Laps &laps) {
        collect(length_, act, infer_s, environment_s, laps);
    }
    // `steps` of them, at most T. After a throw the next ones go on from the last step that was taken.
    template <typename Act>
    void collect(int64_t steps, const Act &act, double &infer_s, double &environment_s, Laps &laps) {
        std::memmove(observations_.data(), following(), size_t(count_ * width_) * sizeof(float));
        taken_ = 0;
        open_ends_.clear();
        environments::Outputs<float> outputs{};
        outputs.rewards = rewards_.data();
        outputs.episode_returns = returns_.data();
        for (int64_t t = 0; t < steps; ++t) {
            const int64_t first = t * count_;
            float *seen = observations_.data() + first * width_;
            act(seen, t, action_at(first));
            const environments::Actions actions = applied(first);
            laps.lap(infer_s);
            outputs.observations = seen + count_ * width_;
            outputs.final_observations = final_.data() + first * width_;
            outputs.terminated = terminated_.get() + first;
            outputs.truncated = truncated_.get() + first;
            environments_.step(actions, outputs);
            taken_ = t + 1;
            note(t, taken_ == steps);
            laps.lap(environment_s);
        }
    }

  private:
    float *following() { return observations_.data() + taken_samples() * width_; }
    std::byte *action_at(int64_t sample) {
        return actions_ ? reinterpret_cast<std::byte *>(continuous_.data() + sample * actions_)
                        : reinterpret_cast<std::byte *>(discrete_.data() + sample);
    }

    // What the environments get of the N actions from `sample` on.
    environments::Actions applied(int64_t sample) {
        environments::Actions made;
        made.discrete = discrete_.data() + (actions_ ? 0 : sample);
        made.continuous = applied_.data();
        const float *chosen = continuous_.data() + sample * actions_;
        for (size_t k = 0; k < applied_.size(); ++k) {
            const size_t a = k % size_t(actions_);
            const float action = std::min(std::max(chosen[k], -1.0f), 1.0f);
            applied_[k] = scaled_ ? low_[a] + (action + 1) * half_[a] : action;
        }
        if (environments_.first_invalid(made) >= 0)
            throw std::domain_error("action: found NaN; allowed: finite numbers");
        return made;
    }

    void note(int64_t t, bool last) {
        for (int64_t i = 0; i < count_; ++i) {
            const int64_t s = t * count_ + i;
            reward_[size_t(s)] = float(rewards_[size_t(i)]);
            const bool over = terminated_[s] | truncated_[s];
            if (!terminated_[s] && (truncated_[s] || last))
                open_ends_.push_back(
                    {s, over ? final_.data() + s * width_ : observations_.data() + (s + count_) * width_});
            if (over)
                episodes_.push_back({environment_steps_ + i + 1, returns_[size_t(i)]});
        }
        environment_steps_ += count_;
    }

    environments::VectorEnv &environments_;
    const int64_t length_;            // T
    int64_t taken_;                   // T'
    const int64_t count_, width_;     // N
    const int actions_;               // numbers of a continuous action, 0 if discrete
    bool scaled_ = false;             // whether the bounds of actions are others than -1 and 1
    std::vector<float> observations_; // (T + 1, N, width): the last ones are the next rollout's first
    std::vector<float> final_;        // (T, N, width), set where an episode is over
    std::vector<float> continuous_, applied_, reward_, low_, half_;
    std::vector<int64_t> discrete_;
    std::vector<double> rewards_, returns_; // (N,) of a step
    std::unique_ptr<bool[]> terminated_, truncated_;
    std::vector<OpenEnd> open_ends_;
    std::vector<Episode> episodes_;
    int64_t environment_steps_ = 0;
};

// Generalised advantages (Schulman et al. 2016, eq. 16), cut where an episode is over. Numbers are rounded
// where NumPy rounds them in `primitives.algorithms.ppo.advantages`: what is carried is a double.
class Advantages {
  public:
    Advantages(double gamma, double gae_lambda) : discount_(float(gamma)), decay_(gamma * gae_lambda) {}

    // next_value (T N,): values of the states after the samples. advantage (T N,): is written.
    void estimate(const Rollout &rollout, const float *value, const float *next_value, float *advantage) {
        const int64_t count = rollout.count();
        const float *reward = rollout.rewards();
        const bool *terminated = rollout.terminated(), *truncated = rollout.truncated();
        carried_.assign(size_t(count), 0.0);
        for (int64_t t = rollout.length() - 1; t >= 0; --t)
            for (int64_t i = 0; i < count; ++i) {
                const int64_t s = t * count + i;
                const float delta = reward[s] + discount_ * (terminated[s] ? 0.0f : next_value[s]) - value[s];
                const double share = terminated[s] | truncated[s] ? 0.0 : decay_;
                carried_[size_t(i)] = double(delta) + share * carried_[size_t(i)];
                advantage[s] = float(carried_[size_t(i)]);
            }
    }

  private:
    float discount_;
    double decay_;
    std::vector<double> carried_; // (N,)
};

} // namespace placerl::training
