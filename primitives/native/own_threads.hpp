// The threads of one object, also in a forked process: there the object is, and its threads are not.
#pragma once

#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

namespace placerl {

// From now on the thread runs on this core alone.
inline void bind_to(pthread_t thread, int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    if (core >= 0 && core < CPU_SETSIZE)
        CPU_SET(core, &one);
    if (pthread_setaffinity_np(thread, sizeof one, &one))
        throw std::invalid_argument("core: found " + std::to_string(core) +
                                    "; allowed: one that this process may use");
}

class OwnThreads {
  public:
    OwnThreads() : owner_(getpid()) {}
    OwnThreads(const OwnThreads &) = delete;
    OwnThreads &operator=(const OwnThreads &) = delete;
    ~OwnThreads() { join(); }

    template <typename Work>
    std::thread &start(Work work) {
        return threads_.emplace_back(std::move(work));
    }
    void bind(int core) {
        for (std::thread &thread : threads_)
            bind_to(thread.native_handle(), core);
    }
    bool empty() const { return threads_.empty(); }
    // Whether the threads are another process's: this one was forked from it, and nobody here does their
    // work.
    bool elsewhere() const { return getpid() != owner_; }
    // Waits until all have ended. In a forked process nobody is there to wait for, and the threads' stacks,
    // to which the handles point, were reclaimed by the fork. Even to detach them is undefined, so the
    // handles are leaked on purpose: some bytes an object, in a forked process alone.
    void join() {
        if (elsewhere()) {
            (void)new auto(std::move(threads_));
            threads_.clear();
            return;
        }
        for (std::thread &thread : threads_)
            thread.join();
        threads_.clear();
    }

  private:
    std::vector<std::thread> threads_;
    const pid_t owner_;
};

} // namespace placerl
