// The loop that all environments share: time limits, autoreset and the sums over an episode around the
// physics of one kind.
//
// Physics has, for environment i of its vector,
//   void reset(int64_t i, Pcg64 &random)
//   bool step(int64_t i, const Action *action, double &reward), which says whether the episode has
//   terminated, or void step_block(int64_t first, int count, const Action *actions, double *rewards, bool
//   *terminated), for at most
//     `block` environments without info, of which those may be stepped too whose reset follows
//   void observe(int64_t i, Number *row), for float and double
//   void info(int64_t i, double *row, bool after_reset)
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "environments/native/block.hpp"
#include "environments/native/random.hpp"
#include "environments/native/vector_env.hpp"

namespace placerl::environments {

template <typename Physics>
class Stepper final : public VectorEnv {
  public:
    template <typename... Arguments>
    Stepper(Spec spec, int64_t count, Autoreset autoreset, Arguments &&...arguments)
        : spec_(std::move(spec)), count_(count), info_width_(spec_.info_width()), autoreset_(autoreset),
          physics_(count, std::forward<Arguments>(arguments)...), random_(count), lengths_(count),
          returns_(count), over_(new bool[count]()) {}

    const Spec &spec() const override { return spec_; }
    int64_t count() const override { return count_; }
    Autoreset autoreset() const override { return autoreset_; }
    const bool *over() const override { return over_.get(); }

    void reset(const uint64_t *seeds, const bool *mask, float *observations, double *info) override {
        reset_some(seeds, mask, observations, info);
    }
    void reset(const uint64_t *seeds, const bool *mask, double *observations, double *info) override {
        reset_some(seeds, mask, observations, info);
    }
    void step(const Actions &actions, const Outputs<float> &outputs) override { step_all(actions, outputs); }
    void step(const Actions &actions, const Outputs<double> &outputs) override { step_all(actions, outputs); }

  private:
    static constexpr bool in_blocks = !requires(Physics &physics, double reward) {
        physics.step(int64_t(0), static_cast<const typename Physics::Action *>(nullptr), reward);
    };

    template <typename Number>
    void reset_some(const uint64_t *seeds, const bool *mask, Number *observations, double *info) {
        for (int64_t i = 0; i < count_; ++i) {
            if (mask && !mask[i])
                continue;
            if (seeds)
                random_[i].seed(seeds[i]);
            begin(i);
            over_[i] = false;
            physics_.observe(i, observations + i * spec_.observation_width);
            write_info(i, info, true);
        }
    }

    void begin(int64_t i) {
        physics_.reset(i, random_[i]);
        lengths_[i] = 0;
        returns_[i] = 0;
    }

    void write_info(int64_t i, double *info, bool after_reset) {
        if (info)
            physics_.info(i, info + i * info_width_, after_reset);
    }

    template <typename Number>
    void step_all(const Actions &actions, const Outputs<Number> &outputs) {
        using Action = typename Physics::Action;
        const Action *action;
        if constexpr (std::is_same_v<Action, int64_t>)
            action = actions.discrete;
        else
            action = actions.continuous;
        const int64_t limit = spec_.episode_steps ? spec_.episode_steps : INT64_MAX;
        if constexpr (in_blocks) {
            for (int64_t first = 0; first < count_; first += block)
                step_block(first, int(std::min<int64_t>(block, count_ - first)), action + first, limit,
                           outputs);
            return;
        } else {
            const int action_width = spec_.action_width;
            for (int64_t i = 0; i < count_; ++i) {
                if (over_[i] && autoreset_ == Autoreset::next_step) {
                    begin(i);
                    over_[i] = false;
                    write_info(i, outputs.info, true);
                    write(i, outputs, 0, false, false);
                    continue;
                }
                double reward;
                const bool terminated = physics_.step(i, action + i * action_width, reward);
                const bool truncated = ++lengths_[i] >= limit;
                returns_[i] += reward;
                write_info(i, outputs.info, false);
                write(i, outputs, reward, terminated, truncated);
            }
        }
    }

    // All of a block go through the same loops, and those whose episode is over or begins through more.
    template <typename Action, typename Number>
    void step_block(int64_t first, int count, const Action *actions, int64_t limit,
                    const Outputs<Number> &outputs) {
        double *const rewards = outputs.rewards + first;
        bool *const terminated = outputs.terminated + first, *const truncated = outputs.truncated + first;
        bool ended[block] = {};
        physics_.step_block(first, count, actions, rewards, terminated);
        advance(count, limit, rewards, terminated, lengths_.data() + first, returns_.data() + first,
                truncated, ended);
        if (autoreset_ == Autoreset::next_step)
            for (int k = 0; k < count; ++k)
                if (over_[first + k]) {
                    begin(first + k);
                    over_[first + k] = ended[k] = terminated[k] = truncated[k] = false;
                    rewards[k] = 0;
                }
        for (int64_t i = first; i < first + count; ++i)
            physics_.observe(i, outputs.observations + i * int64_t(spec_.observation_width));
        if (outputs.episode_returns)
            std::copy_n(returns_.data() + first, count, outputs.episode_returns + first);
        if (outputs.episode_lengths)
            std::copy_n(lengths_.data() + first, count, outputs.episode_lengths + first);
        for (int k = 0; k < count; k += 8) {
            uint64_t any;
            std::memcpy(&any, ended + k, sizeof any);
            for (; any; any &= any - 1) { // a byte of each that ended is 1
                const int64_t i = first + k + std::countr_zero(any) / 8;
                finish(i, outputs);
                physics_.observe(i, outputs.observations + i * int64_t(spec_.observation_width));
            }
        }
    }

    static void advance(int count, int64_t limit, const double *__restrict rewards,
                        const bool *__restrict terminated, int64_t *__restrict lengths,
                        double *__restrict returns, bool *__restrict truncated, bool *__restrict ended) {
        for (int k = 0; k < count; ++k) {
            lengths[k] += 1;
            returns[k] += rewards[k];
        }
        for (int k = 0; k < count; ++k) {
            truncated[k] = lengths[k] >= limit;
            ended[k] = terminated[k] | truncated[k];
        }
    }

    template <typename Number>
    void write(int64_t i, const Outputs<Number> &outputs, double reward, bool terminated, bool truncated) {
        outputs.rewards[i] = reward;
        outputs.terminated[i] = terminated;
        outputs.truncated[i] = truncated;
        if (outputs.episode_returns)
            outputs.episode_returns[i] = returns_[i];
        if (outputs.episode_lengths)
            outputs.episode_lengths[i] = lengths_[i];
        if (terminated | truncated)
            finish(i, outputs);
        physics_.observe(i, outputs.observations + i * int64_t(spec_.observation_width));
    }

    template <typename Number>
    void finish(int64_t i, const Outputs<Number> &outputs) {
        if (outputs.final_observations)
            physics_.observe(i, outputs.final_observations + i * spec_.observation_width);
        over_[i] = autoreset_ != Autoreset::same_step;
        if (autoreset_ == Autoreset::same_step) {
            write_info(i, outputs.final_info, false);
            begin(i);
            write_info(i, outputs.info, true);
        }
    }

    Spec spec_;
    int64_t count_, info_width_;
    Autoreset autoreset_;
    Physics physics_;
    std::vector<Pcg64> random_;
    std::vector<int64_t> lengths_;
    std::vector<double> returns_;
    std::unique_ptr<bool[]> over_;
};

} // namespace placerl::environments
