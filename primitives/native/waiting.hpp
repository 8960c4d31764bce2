// How a thread waits for another one that is about to be done.
#pragma once

#include <chrono>
#include <thread>

namespace placerl {

// At first without letting go of the core, then in turns with whoever wants it, as there may be more threads
// than cores. A thread that waits for long should sleep.
class Waiting {
  public:
    // One turn of waiting.
    void turn() {
        if (++turns_ % YIELD_EVERY == 0)
            std::this_thread::yield();
        else
            pause();
    }
    // Whether it has been so long that more waiting is a waste; asked now and then, as the clock is slow.
    bool is_long() {
        if (turns_ == 0 || turns_ % CLOCK_EVERY != 0)
            return false;
        const auto now = Clock::now();
        if (turns_ == CLOCK_EVERY)
            since_ = now;
        return now - since_ > LONG;
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr int YIELD_EVERY = 256, CLOCK_EVERY = 64;
    // About what it takes to sleep and be woken: who waits as long before it sleeps loses at most twice what
    // the better of the two would have cost (Karlin et al. 1991, "Empirical studies of competitive
    // spinning"). More than Python takes between two steps, less than a scheduler's time slice.
    static constexpr std::chrono::microseconds LONG{50};

    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }

    long turns_ = 0;
    Clock::time_point since_{};
};

} // namespace placerl
