// How far actors and learners may be ahead of each other: shared counters, and waiting.
//
// A gradient step belongs to `interval` environment steps, which are all inserted before it begins. Actors
// may be ahead of that by at most `lead` steps and one vector step. With a lead of 0, and one thread each,
// the two take turns.
#pragma once

#include <atomic>
#include <cstdint>

namespace placerl::training {

// Who works in a run.
enum class Working : int { both, actors, learners };

class Pace {
  public:
    // `starts`: environment steps before the first gradient step, at random.
    Pace(int64_t starts, int64_t interval, int64_t lead)
        : starts_(starts), interval_(interval), lead_(lead) {}

    int64_t environment_steps() const { return inserted_.load(std::memory_order_acquire); }
    int64_t gradient_steps() const { return learnt_.load(std::memory_order_acquire); }
    bool filled() const { return claimed_.load(std::memory_order_acquire) >= starts_; }
    bool stopped() const { return stopped_.load(std::memory_order_acquire); }

    // Between runs, when no thread is in here. Actors alone take `steps` environment steps, learners alone
    // wait for none. After either the other side counts as having kept in step.
    void begin(Working working = Working::both, int64_t steps = 0) {
        stopped_.store(false, std::memory_order_release);
        claimed_.store(environment_steps(), std::memory_order_release); // an actor that failed inserted none
        if (filled() && (base_ < 0 || working_ != Working::both))
            base_ = environment_steps() - interval_ * gradient_steps();
        working_ = working;
        last_ = claimed_.load(std::memory_order_acquire) + steps;
    }
    // Goes on from counts of an earlier training.
    void restore(int64_t environment_steps, int64_t gradient_steps) {
        claimed_ = inserted_ = environment_steps;
        learnt_ = gradient_steps;
        base_ = environment_steps >= starts_ ? environment_steps - interval_ * gradient_steps : -1;
    }
    void stop() {
        stopped_.store(true, std::memory_order_release);
        announce();
    }

    // An actor's next `count` environment steps: waits until they may be taken, and returns how many were
    // taken before them; -1 once stopped, or where the replay is filled and nothing is learnt yet, or where
    // actors alone have taken theirs. Without `wait` also -1 where they may not be taken yet.
    int64_t claim(int64_t count, bool wait = true) {
        for (;;) {
            const uint32_t seen = events_.load(std::memory_order_acquire);
            if (stopped())
                return -1;
            int64_t before = claimed_.load(std::memory_order_acquire);
            const bool alone = base_ < 0 || working_ == Working::actors;
            const int64_t limit = !alone      ? base_ + interval_ * (gradient_steps() + 1) + lead_
                                  : base_ < 0 ? starts_
                                              : last_;
            if (alone && before >= limit)
                return -1;
            if (before < limit) {
                if (claimed_.compare_exchange_weak(before, before + count, std::memory_order_acq_rel))
                    return before;
                continue;
            }
            if (!wait)
                return -1;
            events_.wait(seen, std::memory_order_acquire);
        }
    }
    void inserted(int64_t count) {
        inserted_.fetch_add(count, std::memory_order_acq_rel);
        announce();
    }

    // Waits until the environment steps of a gradient step are in the replay; false once stopped.
    bool may_learn(int64_t gradient_step) const {
        for (;;) {
            const uint32_t seen = events_.load(std::memory_order_acquire);
            if (stopped())
                return false;
            if (working_ == Working::learners ||
                environment_steps() >= base_ + interval_ * (gradient_step + 1))
                return true;
            events_.wait(seen, std::memory_order_acquire);
        }
    }
    void learnt() {
        learnt_.fetch_add(1, std::memory_order_acq_rel);
        announce();
    }

  private:
    void announce() {
        events_.fetch_add(1, std::memory_order_acq_rel);
        events_.notify_all();
    }

    const int64_t starts_, interval_, lead_;
    int64_t base_ = -1; // environment steps that belong to no gradient step; negative before learning
    Working working_ = Working::both;
    int64_t last_ = 0; // environment step at which actors alone end
    alignas(64) std::atomic<int64_t> claimed_{0};
    std::atomic<int64_t> inserted_{0};
    alignas(64) std::atomic<int64_t> learnt_{0};
    alignas(64) std::atomic<uint32_t> events_{0};
    std::atomic<bool> stopped_{true};
};

} // namespace placerl::training
