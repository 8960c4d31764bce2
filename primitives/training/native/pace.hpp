// The ratio of environment steps to gradient steps, held by a bucket of tokens: an inserted environment step
// adds one, and a gradient step takes `interval`.
//
// A gradient step begins only when its tokens are there, and an actor only when the bucket, with what all
// actors have claimed, holds fewer than `interval + lead`. So a bucket of v-vectors holds 0 to
// interval + lead + v - 1 tokens at all times, and over any window, however long, environment steps and
// `interval` times the gradient steps differ by less than interval + lead + v: actors and learners run free
// in between, and no error adds up. With a lead of 0, and one thread each, the two take turns.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "native/waiting.hpp"

namespace placerl::training {

// Who works in a run.
enum class Working : int { both, actors, learners };

// Where threads wait until a counter reaches a value. Whoever raises the counter makes a system call only
// when it reaches what somebody waits for.
class Gate {
  public:
    // May return too early. `spins`: whether it is worth a core to be there at once.
    void wait_until(const std::atomic<int64_t> &counter, int64_t least, const std::atomic<bool> &stopped,
                    bool spins) {
        for (Waiting waiting; spins && counter.load() < least && !stopped.load() && !waiting.is_long();)
            waiting.turn();
        const uint32_t seen = opened_.load();
        for (int64_t now = least_.load(); least < now && !least_.compare_exchange_weak(now, least);)
            ;
        // Sequentially consistent, as `reached`: who sleeps here is seen there, or sees the new count here.
        if (counter.load() < least && !stopped.load())
            opened_.wait(seen);
    }
    // The counter was raised to `count`.
    void reached(int64_t count) {
        if (count >= least_.load())
            open();
    }
    void open() {
        least_.store(NOBODY);
        opened_.fetch_add(1);
        opened_.notify_all();
    }

  private:
    static constexpr int64_t NOBODY = std::numeric_limits<int64_t>::max();
    alignas(64) std::atomic<int64_t> least_{NOBODY}; // of all who wait
    std::atomic<uint32_t> opened_{0};
};

class Pace {
  public:
    // `starts`: environment steps before the first gradient step, at random.
    Pace(int64_t starts, int64_t interval, int64_t lead)
        : starts_(starts), interval_(interval), lead_(lead) {}

    int64_t environment_steps() const { return inserted_.load(std::memory_order_acquire); }
    int64_t gradient_steps() const { return learnt_.load(std::memory_order_acquire); }
    bool filled() const { return environment_steps() >= starts_; }
    bool stopped() const { return stopped_.load(std::memory_order_acquire); }

    // Between runs, when no thread is in here. Actors alone take `steps` environment steps, learners alone
    // wait for none. After either the other side counts as having kept in step.
    void begin(Working working = Working::both, int64_t steps = 0) {
        stopped_.store(false, std::memory_order_release);
        claimed_.store(environment_steps(), std::memory_order_release); // an actor that failed inserted none
        if (filled() && (!begun_ || working_ != Working::both)) {
            base_ = environment_steps() - interval_ * gradient_steps();
            begun_ = true;
        }
        working_ = working;
        last_ = claimed_.load(std::memory_order_acquire) + steps;
    }
    // Goes on from counts of an earlier training.
    void restore(int64_t environment_steps, int64_t gradient_steps) {
        claimed_ = inserted_ = environment_steps;
        learnt_ = gradient_steps;
        base_ = environment_steps - interval_ * gradient_steps;
        begun_ = environment_steps >= starts_;
    }
    void stop() {
        stopped_.store(true);
        learners_.open();
        actors_.open();
    }

    // An actor's next `count` environment steps: waits until they may be taken, and returns how many were
    // taken before them; -1 once stopped, or where the replay is filled and nothing is learnt yet, or where
    // actors alone have taken theirs. Without `wait` also -1 where they may not be taken yet.
    int64_t claim(int64_t count, bool wait = true) {
        for (;;) {
            if (stopped())
                return -1;
            int64_t before = claimed_.load(std::memory_order_acquire);
            const bool alone = !begun_ || working_ == Working::actors;
            const int64_t limit = !alone    ? base_ + interval_ * (gradient_steps() + 1) + lead_
                                  : !begun_ ? starts_
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
            // Until half the lead is used up: not each gradient step wakes an actor for a few tokens.
            const int64_t room = before + std::max<int64_t>(1, lead_ / 2) - lead_ - base_;
            actors_.wait_until(learnt_, (room + interval_ - 1) / interval_ - 1, stopped_, lead_ == 0);
        }
    }
    void inserted(int64_t count) { learners_.reached(inserted_.fetch_add(count) + count); }

    // Waits until the environment steps of a gradient step are in the replay; false once stopped.
    bool may_learn(int64_t gradient_step) {
        for (;;) {
            if (stopped())
                return false;
            const int64_t least = base_ + interval_ * (gradient_step + 1);
            if (working_ == Working::learners || environment_steps() >= least)
                return true;
            learners_.wait_until(inserted_, least, stopped_, true);
        }
    }
    void learnt() { actors_.reached(learnt_.fetch_add(1) + 1); }

  private:
    const int64_t starts_, interval_, lead_;
    bool begun_ = false; // whether `base_` is known: the random steps are taken
    // Environment steps that belong to no gradient step; negative where learners alone went far ahead.
    int64_t base_ = 0;
    Working working_ = Working::both;
    int64_t last_ = 0; // environment step at which actors alone end
    alignas(64) std::atomic<int64_t> claimed_{0};
    std::atomic<int64_t> inserted_{0};
    alignas(64) std::atomic<int64_t> learnt_{0};
    Gate actors_, learners_; // where they wait for each other
    std::atomic<bool> stopped_{true};
};

} // namespace placerl::training
