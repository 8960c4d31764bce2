// What the threads of a training call: the policy of an actor, the gradient step of a learner. Interfaces, so
// that the threads do not depend on how either is computed.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include "replay/native/concurrent_replay.hpp"
#include "training/native/mailbox.hpp"

namespace placerl::training {

// splitmix64: enough for exploration, and its whole state is one word.
class Random {
  public:
    explicit Random(uint64_t seed = 0) : state_(seed) {}

    uint64_t next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    double uniform() { return double(next() >> 11) * 0x1p-53; }
    int64_t below(int64_t limit) { return int64_t((unsigned __int128)(next()) * uint64_t(limit) >> 64); }
    // Standard normal (Box and Muller 1958).
    void normal(float *out, int64_t count) {
        for (int64_t i = 0; i < count; i += 2) {
            const double radius = std::sqrt(-2 * std::log1p(-uniform())), angle = 2 * M_PI * uniform();
            out[i] = float(radius * std::cos(angle));
            if (i + 1 < count)
                out[i + 1] = float(radius * std::sin(angle));
        }
    }
    uint64_t state() const { return state_; }

  private:
    uint64_t state_;
};

// One for each actor, with its own copy of the weights.
class Policy {
  public:
    virtual ~Policy() = default;

    virtual void take(Mailbox &mailbox) = 0;
    // Exploring actions for rows of observations: indices, or numbers in [-1, 1].
    virtual void explore(const float *observations, int64_t environment_step, Random &random,
                         int64_t *discrete, float *continuous) = 0;
};

// The exponent of the importance weights, linear over gradient steps, then constant.
struct BetaSchedule {
    double first, last;
    int64_t steps;

    double at(int64_t step) const {
        return step < steps ? first + double(step) / double(steps) * (last - first) : last;
    }
};

// One for each learner, with its own copy of the whole state. A step has one phase more than it has
// gradients: after each phase but the last the gradients of all learners are averaged, and all then make the
// same update.
class GradientStep {
  public:
    virtual ~GradientStep() = default;

    virtual int phases(int variant) const = 0;
    // Takes a batch of its own for the gradient step `number`; it may have been drawn before, ahead of time.
    // Throws where there is none, or where a number is not finite.
    virtual void sample(int variant, int64_t number, const BetaSchedule &beta, Random &random) = 0;
    virtual void run(int variant, int phase) = 0;
    // Takes the mean of all learners' gradients of a phase, its own among them, for the later phases.
    virtual void average(int variant, int phase, const std::vector<GradientStep *> &all) = 0;
    // Sends the TD errors of the batch back as priorities. Throws where one is not finite.
    virtual void update(int variant) = 0;
    virtual void publish(Mailbox &mailbox) = 0;
    // Between runs: waits until all priorities are sent back, and drops batches that were drawn ahead of
    // time. Throws, once, what failed meanwhile.
    virtual void settle() {}
};

struct Episode {
    int64_t environment_step; // of the training, at about which it ended
    double total_reward;
};

// Seconds by what a thread did.
struct Spent {
    double environment = 0, infer = 0, insert = 0, actor_wait = 0;
    double sample = 0, learner = 0, aggregate = 0, update = 0, learner_wait = 0;

    void add(const Spent &other) {
        environment += other.environment, infer += other.infer, insert += other.insert;
        actor_wait += other.actor_wait, sample += other.sample, learner += other.learner;
        aggregate += other.aggregate, update += other.update, learner_wait += other.learner_wait;
    }
};

// Adds the time since it was last read to what a thread did meanwhile.
class Laps {
  public:
    void lap(double &term) {
        const auto now = Clock::now();
        term += std::chrono::duration<double>(now - last_).count();
        last_ = now;
    }

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point last_ = Clock::now();
};

} // namespace placerl::training
