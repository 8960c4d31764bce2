// Where learners wait for each other, and agree whether the step goes on.
#pragma once

#include <atomic>
#include <cstdint>

#include "native/waiting.hpp"

namespace placerl::training {

class Meeting {
  public:
    explicit Meeting(int members) : members_(members) {}

    // Returns when all members are here: whether all of them want to go on. What a member wrote before, all
    // see after.
    bool meet(bool go_on) {
        if (!go_on)
            refused_.store(true, std::memory_order_relaxed);
        const uint32_t round = round_.load(std::memory_order_acquire);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
            agreed_.store(!refused_.exchange(false, std::memory_order_relaxed), std::memory_order_relaxed);
            arrived_.store(0, std::memory_order_relaxed);
            round_.store(round + 1, std::memory_order_release);
            round_.notify_all();
        } else {
            for (Waiting waiting; round_.load(std::memory_order_acquire) == round && !waiting.is_long();)
                waiting.turn();
            round_.wait(round, std::memory_order_acquire);
        }
        return agreed_.load(std::memory_order_relaxed);
    }

  private:
    const int members_;
    alignas(64) std::atomic<int> arrived_{0};
    std::atomic<bool> refused_{false}, agreed_{true};
    alignas(64) std::atomic<uint32_t> round_{0};
};

} // namespace placerl::training
