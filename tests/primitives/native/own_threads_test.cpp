// Threads end with their object; in a forked process, which has none of them, nobody waits for them.
#include "native/own_threads.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>

#include <sys/wait.h>

#include "check.hpp"

using placerl::OwnThreads;

namespace {

void all_have_ended_after_join() {
    std::atomic<int> done{0};
    OwnThreads threads;
    CHECK(threads.empty());
    for (int round = 1; round <= 2; ++round) {
        for (int i = 0; i < 3; ++i)
            threads.start([&] { ++done; });
        CHECK(!threads.empty());
        threads.join();
        CHECK(threads.empty());
        CHECK(done == 3 * round);
    }
    CHECK(!threads.elsewhere());
}

void the_destructor_waits() {
    std::atomic<bool> done{false};
    {
        OwnThreads threads;
        threads.start([&] { done = true; });
    }
    CHECK(done);
}

// The thread runs until the parent lets it end, so that a child that waited for it would never end.
void a_forked_process_does_not_wait() {
    std::atomic<bool> ending{false};
    auto threads = std::make_unique<OwnThreads>();
    threads->start([&] { ending.wait(false); });
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(600);
        const bool told = threads->elsewhere() && !threads->empty();
        threads.reset();
        std::_Exit(told ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ending = true;
    ending.notify_all();
}

} // namespace

int main() {
    all_have_ended_after_join();
    the_destructor_waits();
    a_forked_process_does_not_wait();
}
