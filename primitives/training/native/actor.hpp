// An actor: a vector of environments, a policy with its own weights, and insertion into the replay that all
// share (PAL V-A).
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "environments/native/vector_env.hpp"
#include "training/native/pace.hpp"
#include "training/native/parts.hpp"

namespace placerl::training {

// Where a transition's parts lie among the replay's columns.
struct TransitionColumns {
    size_t observation, action, reward, next_observation, terminated;
};

class Actor {
  public:
    // `environments` begin their next episode in the same step.
    Actor(environments::VectorEnv &environments, Policy &policy, TransitionColumns columns, uint64_t seed)
        : environments_(environments), policy_(policy), columns_(columns), random_(seed),
          count_(environments.count()), width_(environments.spec().observation_width),
          actions_(environments.spec().discrete() ? 0 : environments.spec().action_width) {
        const auto &spec = environments.spec();
        if (environments.autoreset() != environments::Autoreset::same_step)
            throw std::invalid_argument("environments: allowed: those that reset in the same step");
        const size_t rows = size_t(count_), numbers = rows * size_t(width_);
        for (std::vector<float> *row : {&observations_, &following_, &final_, &next_, &stored_})
            row->resize(numbers);
        discrete_.resize(rows);
        continuous_.resize(rows * size_t(actions_));
        scaled_.resize(continuous_.size());
        rewards_.resize(rows), returns_.resize(rows), reward_.resize(rows);
        terminated_ = std::make_unique<bool[]>(rows);
        truncated_ = std::make_unique<bool[]>(rows);
        for (int a = 0; a < actions_; ++a) {
            low_.push_back(spec.action_low.at(size_t(a)));
            half_.push_back((spec.action_high.at(size_t(a)) - low_.back()) / 2);
        }
        // With this seed and those that follow it. 31 bits, as in every recorded training: two actors of n
        // environments have a seed in common with a probability of about n / 2^30.
        environments_.reset_all(random_.next() >> 33, observations_.data());
    }

    int64_t count() const { return count_; }
    int64_t width() const { return width_; }
    const Spent &spent() const { return spent_; }
    std::vector<Episode> take_episodes() { return std::move(episodes_); }

    // Steps and inserts until the pace ends.
    void run(Pace &pace, Mailbox &mailbox, replay::ConcurrentReplay &replay, bool at_random) {
        Laps laps;
        while (take_turn(pace, mailbox, replay, at_random, laps, true))
            ;
    }

    // Steps once and inserts; false where the pace has ended, or, without `wait`, does not allow it yet.
    bool take_turn(Pace &pace, Mailbox &mailbox, replay::ConcurrentReplay &replay, bool at_random, Laps &laps,
                   bool wait) {
        const int64_t before = pace.claim(count_, wait);
        laps.lap(spent_.actor_wait);
        if (before < 0)
            return false;
        choose(mailbox, before, at_random);
        laps.lap(spent_.infer);
        step(before);
        laps.lap(spent_.environment);
        items_.resize(replay.columns().size());
        items_[columns_.observation] = bytes(stored_.data());
        items_[columns_.action] = actions_ ? bytes(continuous_.data()) : bytes(discrete_.data());
        items_[columns_.reward] = bytes(reward_.data());
        items_[columns_.next_observation] = bytes(next_.data());
        items_[columns_.terminated] = bytes(terminated_.get());
        replay.insert(items_.data(), count_, nullptr);
        pace.inserted(count_);
        laps.lap(spent_.insert);
        return true;
    }

  private:
    template <typename T>
    static const char *bytes(const T *data) {
        return reinterpret_cast<const char *>(data);
    }

    void choose(Mailbox &mailbox, int64_t environment_step, bool at_random) {
        if (at_random) {
            for (int64_t &action : discrete_)
                action = actions_ ? 0 : random_.below(environments_.spec().action_count);
            for (float &action : continuous_)
                action = float(2 * random_.uniform() - 1);
        } else {
            policy_.take(mailbox);
            policy_.explore(observations_.data(), environment_step, random_, discrete_.data(),
                            continuous_.data());
        }
        for (size_t i = 0; i < continuous_.size(); ++i) {
            const size_t a = i % size_t(actions_);
            scaled_[i] = low_[a] + (continuous_[i] + 1) * half_[a];
        }
    }

    void step(int64_t environment_step) {
        stored_ = observations_;
        environments::Outputs<float> outputs{following_.data(), rewards_.data(), terminated_.get(),
                                             truncated_.get()};
        outputs.final_observations = final_.data();
        outputs.episode_returns = returns_.data();
        const environments::Actions actions{discrete_.data(), scaled_.data()};
        if (actions_ && environments_.first_invalid(actions) >= 0)
            throw std::domain_error("action: found NaN; allowed: finite numbers");
        environments_.step(actions, outputs);
        for (int64_t i = 0; i < count_; ++i) {
            const bool over = terminated_[i] || truncated_[i];
            // A transition ends in its own episode's last observation, and only termination ends the
            // bootstrap.
            std::memcpy(&next_[size_t(i * width_)], (over ? final_ : following_).data() + i * width_,
                        size_t(width_) * sizeof(float));
            reward_[size_t(i)] = float(rewards_[size_t(i)]);
            if (over)
                episodes_.push_back({environment_step + i + 1, returns_[size_t(i)]});
        }
        std::swap(observations_, following_);
    }

    environments::VectorEnv &environments_;
    Policy &policy_;
    const TransitionColumns columns_;
    Random random_;
    const int64_t count_, width_;
    const int actions_; // components of a continuous action, 0 if discrete
    std::vector<float> observations_, following_, final_, next_, stored_, continuous_, scaled_, reward_, low_,
        half_;
    std::vector<int64_t> discrete_;
    std::vector<double> rewards_, returns_;
    std::unique_ptr<bool[]> terminated_, truncated_;
    std::vector<const char *> items_; // by column, of one insertion
    std::vector<Episode> episodes_;
    Spent spent_;
};

} // namespace placerl::training
