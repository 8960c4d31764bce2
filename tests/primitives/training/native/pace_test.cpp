// The bucket of tokens between actors and learners: whatever the order in which they come, the ratio is exact
// over every window, both sides are bounded, and nobody sleeps for ever.
#include <thread>
#include <vector>

#include "check.hpp"
#include "training/native/pace.hpp"
#include "training/native/parts.hpp"

using namespace placerl::training;

namespace {

struct Case {
    int64_t interval, lead;
    std::vector<int64_t> vectors; // environment steps that each actor takes at once

    int64_t most() const { return *std::max_element(vectors.begin(), vectors.end()); }
};

Case case_of(Random &random) {
    Case made{1 + random.below(5), random.below(3) ? random.below(40) : 0, {}};
    for (int64_t actors = 1 + random.below(4); actors > 0; --actors)
        made.vectors.push_back(1 + random.below(9));
    return made;
}

// Takes the random steps, and returns how many were taken.
int64_t filled(Pace &pace, const Case &of) {
    pace.begin();
    for (int64_t before; (before = pace.claim(of.vectors[0])) >= 0;)
        pace.inserted(of.vectors[0]);
    pace.begin();
    return pace.environment_steps();
}

void any_order_keeps_the_ratio(Random &random) {
    const Case of = case_of(random);
    Pace pace(5, of.interval, of.lead);
    const int64_t base = filled(pace, of);
    std::vector<bool> acting(of.vectors.size());
    int64_t claimed = base, inserted = base, learnt = 0, least = 0, most = 0;
    for (int move = 0; move < 2000; ++move) {
        const auto who = size_t(random.below(int64_t(of.vectors.size()) + 1));
        if (who == of.vectors.size()) {
            if (inserted < base + of.interval * (learnt + 1))
                continue;
            CHECK(pace.may_learn(learnt));
            pace.learnt();
            ++learnt;
        } else if (acting[who]) {
            pace.inserted(of.vectors[who]);
            inserted += of.vectors[who];
            acting[who] = false;
        } else {
            const bool allowed = claimed < base + of.interval * (learnt + 1) + of.lead;
            CHECK(pace.claim(of.vectors[who], false) == (allowed ? claimed : -1));
            claimed += allowed ? of.vectors[who] : 0;
            acting[who] = allowed;
        }
        const int64_t tokens = pace.environment_steps() - base - of.interval * pace.gradient_steps();
        least = std::min(least, tokens);
        most = std::max(most, tokens);
    }
    CHECK(learnt > 50);
    CHECK(least == 0 && most < of.interval + of.lead + of.most()); // of every window the largest difference
}

void threads_keep_the_ratio_and_none_sleeps_for_ever(Random &random) {
    const Case of = case_of(random);
    constexpr int64_t steps = 400;
    Pace pace(5, of.interval, of.lead);
    const int64_t base = filled(pace, of);
    std::vector<std::thread> actors;
    const auto dawdle = [](Random &own) {
        for (int64_t turns = own.below(30); turns > 0; --turns)
            std::this_thread::yield();
    };
    for (const int64_t vector : of.vectors)
        actors.emplace_back([&pace, &of, &dawdle, base, vector, seed = random.next()] {
            Random own(seed);
            for (int64_t before; (before = pace.claim(vector)) >= 0; pace.inserted(vector)) {
                CHECK(before < base + of.interval * (pace.gradient_steps() + 1) + of.lead);
                dawdle(own);
            }
        });
    Random own(random.next());
    for (int64_t step = 0; step < steps; ++step) {
        CHECK(pace.may_learn(step));
        CHECK(pace.environment_steps() >= base + of.interval * (step + 1));
        dawdle(own);
        pace.learnt();
    }
    pace.stop();
    for (std::thread &actor : actors)
        actor.join();
    CHECK(pace.gradient_steps() == steps);
    CHECK(pace.environment_steps() < base + of.interval * (steps + 1) + of.lead + of.most());
}

void steps_that_an_actor_claimed_and_lost_are_claimed_again() {
    Pace pace(4, 2, 0);
    pace.begin();
    CHECK(pace.claim(4) == 0);
    pace.inserted(4);
    pace.begin();
    CHECK(pace.claim(2) == 4); // and fails before it inserts
    pace.begin();
    CHECK(pace.claim(2) == 4);
    Pace filling(4, 2, 0);
    filling.begin();
    CHECK(filling.claim(4) == 0);
    CHECK(!filling.filled());
    filling.begin();
    CHECK(filling.claim(4) == 0);
    filling.inserted(4);
    CHECK(filling.filled());
}

// Then the gradient steps stand for more environment steps than there are.
void learners_that_went_far_ahead_alone_leave_the_ratio_as_it_is() {
    Pace pace(4, 2, 0), restored(4, 2, 0);
    pace.begin();
    CHECK(pace.claim(4) == 0);
    pace.inserted(4);
    pace.begin(Working::learners);
    for (int64_t step = 0; step < 10; ++step) {
        CHECK(pace.may_learn(step));
        pace.learnt();
    }
    restored.restore(4, 10);
    for (Pace *each : {&pace, &restored}) {
        each->begin();
        CHECK(each->claim(2, false) == 4);
        CHECK(each->claim(2, false) == -1); // the next gradient step has its tokens
        each->inserted(2);
        CHECK(each->may_learn(10));
        each->begin(Working::actors, 2);
        CHECK(each->claim(2, false) == 6);
        CHECK(each->claim(2, false) == -1);
    }
}

} // namespace

int main() {
    Random random(11);
    for (int i = 0; i < 500; ++i)
        any_order_keeps_the_ratio(random);
    for (int i = 0; i < 60; ++i)
        threads_keep_the_ratio_and_none_sleeps_for_ever(random);
    steps_that_an_actor_claimed_and_lost_are_claimed_again();
    learners_that_went_far_ahead_alone_leave_the_ratio_as_it_is();
    return 0;
}
