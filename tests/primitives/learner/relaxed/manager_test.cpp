// The replay manager of the relaxed loop: calls in the order in which they are posted, in its own thread,
// while the poster does something else.
#include "learner/relaxed/manager.hpp"

#include <cstdlib>
#include <memory>

#include <sys/wait.h>
#include <unistd.h>

#include "check.hpp"

using namespace placerl;

namespace {

constexpr int64_t capacity = 64, batch_size = 16;

bool all_finite(const float *values, long count) {
    for (long i = 0; i < count; ++i)
        if (!std::isfinite(values[i]))
            return false;
    return true;
}

struct World {
    std::vector<char> reward = std::vector<char>(capacity * sizeof(float));
    std::vector<char> over = std::vector<char>(capacity);
    replay::ConcurrentReplay replay{
        capacity, {{reward.data(), sizeof(float)}, {over.data(), 1}}, 16, {1.0, 0.5, true}};
    relaxed::ReplayManager manager;

    explicit World(bool beside, std::size_t burst)
        : manager(
              replay, batch_size, 1e30,
              {{"reward", learner::Type::float32, false, 0}, {"terminated", learner::Type::float32, true, 0}},
              &all_finite, 8, burst, beside) {}

    static relaxed::Insertion items(int64_t count, float value, double priority) {
        relaxed::Insertion made;
        std::vector<float> values(std::size_t(count), value);
        const char *bytes = reinterpret_cast<const char *>(values.data());
        made.columns.emplace_back(bytes, bytes + std::size_t(count) * sizeof(float));
        made.columns.emplace_back(std::size_t(count), char(1));
        made.priorities.assign(std::size_t(count), priority);
        made.count = count;
        return made;
    }

    std::vector<double> priorities() {
        std::vector<int64_t> rows;
        for (int64_t row = 0; row < replay.taken(); ++row)
            rows.push_back(row);
        std::vector<double> found(rows.size());
        replay.priorities(rows.data(), int64_t(rows.size()), found.data());
        return found;
    }
};

void calls_keep_their_order(bool beside, std::size_t burst) {
    World world(beside, burst);
    relaxed::Insertion first = World::items(32, 1.0f, 2.0), second = World::items(32, 2.0f, 3.0);
    relaxed::Batch before = world.manager.batch(), after = world.manager.batch();
    world.manager.insert(first);
    const uint64_t sampled = world.manager.sample(before, {{1, 2}}, 0.5);
    world.manager.insert(second);
    world.manager.sample(after, {{3, 4}}, 0.5);
    world.manager.wait_for(sampled);
    const auto *rewards = reinterpret_cast<const float *>(before.columns[0].data());
    const auto *flags = reinterpret_cast<const float *>(before.columns[1].data());
    for (int64_t b = 0; b < batch_size; ++b) {
        CHECK(rewards[b] == 1.0f);
        CHECK(flags[b] == 1.0f); // a boolean that the learner takes as a float
        CHECK(before.indices[std::size_t(b)] < 32);
    }
    world.manager.drain();
    CHECK(before.claimed == 32);
    CHECK(after.claimed == 64);
    CHECK(before.wrong.empty() && !before.empty);
}

void late_priorities_spare_new_items(bool beside, std::size_t burst) {
    World world(beside, burst);
    relaxed::Insertion old = World::items(capacity, 1.0f, 2.0), renewed = World::items(40, 2.0f, 3.0);
    relaxed::Batch batch = world.manager.batch();
    world.manager.insert(old);
    world.manager.sample(batch, {{5, 6}}, 0.5);
    world.manager.insert(renewed); // rows 0 to 39
    world.manager.drain();
    std::fill(batch.td_errors.begin(), batch.td_errors.end(), 6.5f);
    world.manager.update(batch);
    world.manager.drain();
    const std::vector<double> found = world.priorities();
    for (int64_t row = 0; row < capacity; ++row) {
        const bool drawn = std::find(batch.indices.begin(), batch.indices.end(), row) != batch.indices.end();
        CHECK(found[std::size_t(row)] == (row < 40 ? 3.0 : drawn ? 7.0 : 2.0));
    }
}

// More calls than have room, from a poster that never pauses.
void a_full_queue_makes_the_poster_wait(std::size_t burst) {
    World world(true, burst);
    std::vector<relaxed::Insertion> all;
    for (int i = 0; i < 1000; ++i)
        all.push_back(World::items(3, float(i), 1.0));
    for (auto &one : all)
        world.manager.insert(one);
    world.manager.drain();
    CHECK(world.replay.size() == capacity);
    CHECK(world.replay.cursor() == 3000 % capacity);
}

void an_error_stops_the_calls_and_is_thrown(bool beside, std::size_t burst) {
    World world(beside, burst);
    relaxed::Insertion items = World::items(32, 1.0f, 2.0), more = World::items(8, 1.0f, 2.0);
    relaxed::Batch batch = world.manager.batch();
    world.manager.insert(items);
    world.manager.sample(batch, {{1, 2}}, 0.5);
    world.manager.drain();
    batch.td_errors[3] = NAN;
    world.manager.update(batch);
    world.manager.insert(more);
    bool thrown = false;
    try {
        world.manager.drain();
    } catch (const std::invalid_argument &) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK(world.replay.size() == 32);
}

void nothing_to_sample_is_said(bool beside, std::size_t burst) {
    World world(beside, burst);
    relaxed::Batch batch = world.manager.batch();
    world.manager.sample(batch, {{1, 2}}, 0.5);
    world.manager.drain();
    CHECK(batch.empty);
}

// The child has the manager and not its thread: nobody takes the calls that fill the queue.
void a_forked_process_can_leave_it(bool beside, std::size_t burst) {
    auto world = std::make_unique<World>(beside, burst);
    relaxed::Insertion items = World::items(8, 1.0f, 2.0);
    world->manager.insert(items);
    world->manager.drain();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(600);
        for (int call = 0; call < 8; ++call)
            world->manager.insert(items);
        world.reset();
        std::_Exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    world->manager.insert(items);
    world->manager.drain();
    CHECK(world->replay.size() == 16);
}

} // namespace

int main() {
    for (const std::size_t burst : {1, 3, 8}) {
        for (const bool beside : {false, true}) {
            calls_keep_their_order(beside, burst);
            late_priorities_spare_new_items(beside, burst);
            an_error_stops_the_calls_and_is_thrown(beside, burst);
            nothing_to_sample_is_said(beside, burst);
            a_forked_process_can_leave_it(beside, burst);
        }
        a_full_queue_makes_the_poster_wait(burst);
    }
    return 0;
}
