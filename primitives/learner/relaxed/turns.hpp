// How two threads take turns without a system call while both are busy: a counter that one raises and the
// other waits for, usually spinning for some microseconds before it sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "native/waiting.hpp"

namespace placerl::relaxed {

class Turns {
  public:
    uint64_t count() const { return count_.load(std::memory_order_acquire); }
    // Only one thread raises a counter. Who sleeps may not notice before it is woken.
    void raise() { count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    void wake() { count_.notify_all(); }
    // Waits until the count is at least `least`. `spins`: whether it is likely to be so soon.
    void wait_for(uint64_t least, bool spins = true) const {
        for (;;) {
            uint64_t seen = count();
            for (Waiting waiting; spins && !reached(seen, least) && !waiting.is_long(); seen = count())
                waiting.turn();
            if (reached(seen, least))
                return;
            count_.wait(seen, std::memory_order_acquire);
        }
    }
    bool reached(uint64_t least) const { return reached(count(), least); }

  private:
    static bool reached(uint64_t seen, uint64_t least) { return seen >= least; }

    alignas(64) std::atomic<uint64_t> count_{0};
};

} // namespace placerl::relaxed
