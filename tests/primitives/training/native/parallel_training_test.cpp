// Actors and learners on one replay, with a policy and a gradient step that can be added up by hand: nothing
// is lost, the pace holds, learners agree, and what fails stops all. To be run under the sanitizers: `make
// sanitize`.
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

#include "check.hpp"
#include "training/native/parallel_training.hpp"

using namespace placerl;
using namespace placerl::training;

namespace {

constexpr int64_t capacity = 4096, batch_size = 8;
constexpr size_t weights = 3;

std::vector<Block> blocks(float *data) { return {{data, 1, int64_t(weights), int64_t(weights), 1}}; }

// Its weights are all the number of gradient steps: a mixture shows.
class CountingPolicy : public Policy {
  public:
    void take(Mailbox &mailbox) override { mailbox.take(seen_, blocks(own_)); }
    void explore(const float *, int64_t, Random &random, int64_t *discrete, float *) override {
        for (size_t i = 1; i < weights; ++i)
            CHECK(own_[i] == own_[0]);
        discrete[0] = random.below(2);
    }
    float newest() const { return own_[0]; }

  private:
    float own_[weights] = {};
    uint64_t seen_ = 0;
};

// Adds the mean of the ranks + 1 to its state, in two phases.
class CountingStep : public GradientStep {
  public:
    CountingStep(replay::ConcurrentReplay &replay, int rank, int learners)
        : replay_(replay), rank_(rank), phases_(learners > 1 ? 2 : 1) {}

    int phases(int) const override { return phases_; }
    void sample(int variant, int64_t number, const BetaSchedule &beta, Random &random) override {
        CHECK(variant == int(steps_ % 2) && number == steps_);
        if (fails_at_ == steps_)
            throw std::domain_error("reward: found NaN");
        for (size_t c = 0; c < replay_.columns().size(); ++c)
            batch_[c].resize(replay_.columns()[c].row_bytes * batch_size);
        char *out[5];
        for (size_t c = 0; c < 5; ++c)
            out[c] = batch_[c].data();
        const sum_tree::Seed seed{{random.next(), random.next()}};
        CHECK(replay_.sample(seed, false, batch_size, beta.at(number), indices_, importance_, out));
        // A transition is whole: CartPole's reward is 1, and the cart moves by 0.02 times its speed.
        for (int64_t b = 0; b < batch_size; ++b) {
            const auto *reward = reinterpret_cast<const float *>(batch_[2].data()) + b;
            const auto *from = reinterpret_cast<const float *>(batch_[0].data()) + 4 * b;
            const auto *to = reinterpret_cast<const float *>(batch_[3].data()) + 4 * b;
            CHECK(*reward == 1.0f);
            CHECK(std::abs(to[0] - from[0] - 0.02f * from[1]) < 1e-4f);
        }
    }
    void run(int, int phase) override {
        if (phase == phases_ - 1 && throws_at_ == steps_)
            throw std::out_of_range("index: found 7");
        if (phase == 0)
            gradient_ = float(rank_ + 1);
        if (phase == phases_ - 1) {
            sum_ += phases_ == 1 ? gradient_ : mean_;
            ++steps_;
        }
    }
    void average(int, int, const std::vector<GradientStep *> &all) override {
        mean_ = 0;
        for (const GradientStep *step : all)
            mean_ += static_cast<const CountingStep *>(step)->gradient_ / float(all.size());
    }
    void update(int) override {
        if (update_throws_at_ == steps_)
            throw std::domain_error("td_errors: found NaN");
        const double priorities[batch_size] = {1, 2, 3, 4, 5, 6, 7, 8};
        replay_.update(indices_, priorities, batch_size);
    }
    void publish(Mailbox &mailbox) override {
        float now[weights];
        published_ = steps_;
        std::fill(now, now + weights, float(steps_));
        mailbox.publish(blocks(now));
    }
    float sum() const { return sum_; }
    int64_t steps() const { return steps_; }
    void fail_at(int64_t step) { fails_at_ = step; }
    void throw_in_last_phase_at(int64_t step) { throws_at_ = step; }
    void throw_in_update_at(int64_t steps) { update_throws_at_ = steps; }
    int64_t published() const { return published_; }

  private:
    replay::ConcurrentReplay &replay_;
    const int rank_, phases_;
    float gradient_ = 0, mean_ = 0, sum_ = 0;
    int64_t steps_ = 0, published_ = 0, fails_at_ = -1, throws_at_ = -1, update_throws_at_ = -1;
    std::vector<char> batch_[5];
    int64_t indices_[batch_size] = {};
    float importance_[batch_size] = {};
};

struct Setup {
    std::vector<char> columns[5];
    std::unique_ptr<replay::ConcurrentReplay> replay;
    std::vector<std::unique_ptr<environments::VectorEnv>> envs;
    std::vector<std::unique_ptr<CountingPolicy>> policies;
    std::vector<std::unique_ptr<CountingStep>> steps;
    std::unique_ptr<ParallelTraining> training;

    Setup(int actors, int learners, int64_t lead, int64_t count = 2, bool in_turns = false) {
        const size_t row_bytes[5] = {16, 8, 4, 16, 1};
        std::vector<replay::Column> views;
        for (size_t c = 0; c < 5; ++c) {
            columns[c].resize(row_bytes[c] * capacity);
            views.push_back({columns[c].data(), row_bytes[c]});
        }
        replay = std::make_unique<replay::ConcurrentReplay>(
            capacity, views, 16, replay::ConcurrentReplay::Options{0.6, 1e-6, true});
        std::vector<std::unique_ptr<Actor>> made;
        for (int i = 0; i < actors; ++i) {
            envs.push_back(
                environments::make_classic("CartPole-v1", count, environments::Autoreset::same_step));
            policies.push_back(std::make_unique<CountingPolicy>());
            made.push_back(std::make_unique<Actor>(*envs.back(), *policies.back(),
                                                   TransitionColumns{0, 1, 2, 3, 4}, uint64_t(i)));
        }
        std::vector<GradientStep *> all;
        for (int rank = 0; rank < learners; ++rank) {
            steps.push_back(std::make_unique<CountingStep>(*replay, rank, learners));
            all.push_back(steps.back().get());
        }
        float like[weights] = {};
        training = std::make_unique<ParallelTraining>(
            *replay, std::move(made), all, blocks(like),
            ParallelTraining::Schedule{64, 2, lead, {0.4, 1.0, 100}, {0, 1}, 7, in_turns});
    }

    void run(int64_t steps, Working working = Working::both) {
        training->start(steps, working);
        while (!training->wait_for(0.01)) {
        }
        training->join();
    }
};

void counts_hold(int actors, int learners, int64_t lead, bool in_turns = false) {
    Setup setup(actors, learners, lead, 2, in_turns);
    setup.run(0); // fills
    CHECK(setup.training->filled());
    const int64_t filled = setup.training->environment_steps();
    CHECK(filled >= 64 && filled < 64 + 2 * actors);
    CHECK(setup.training->gradient_steps() == 0);
    int64_t steps = 0;
    for (const int64_t more : {1, 300, 50}) {
        setup.run(more);
        steps += more;
        CHECK(setup.training->gradient_steps() == steps);
        const int64_t taken = setup.training->environment_steps() - filled;
        CHECK(taken >= 2 * steps);
        CHECK(taken < 2 * (steps + 1) + lead + 2); // and one vector step
        CHECK(setup.replay->size() == std::min(capacity, setup.training->environment_steps()));
        CHECK(setup.replay->taken() == setup.replay->size());
    }
    for (const auto &step : setup.steps) {
        CHECK(step->steps() == steps);
        CHECK(step->sum() == float(steps) * float(learners + 1) / 2);
    }
    if (lead == 0 && actors == 1)
        CHECK(setup.policies[0]->newest() >=
              float(steps - 2)); // in turns: the newest weights but for the last step's
    int64_t last = 0;
    for (const Episode &episode : setup.training->take_episodes()) {
        CHECK(episode.total_reward >= 1 && episode.environment_step >= last);
        last = episode.environment_step;
    }
    CHECK(last > 0);
    CHECK(setup.training->take_episodes().empty());
}

void sides_work_alone_and_keep_in_step_afterwards() {
    constexpr int64_t lead = 16;
    Setup setup(2, 2, lead);
    setup.run(0);
    int64_t environment_steps = setup.training->environment_steps();
    setup.run(101, Working::actors);
    CHECK(setup.training->gradient_steps() == 0);
    CHECK(setup.training->environment_steps() >= environment_steps + 101);
    CHECK(setup.training->environment_steps() < environment_steps + 101 + 2 * 2);
    environment_steps = setup.training->environment_steps();
    setup.run(30, Working::learners);
    CHECK(setup.training->gradient_steps() == 30);
    CHECK(setup.training->environment_steps() == environment_steps);
    setup.run(10);
    CHECK(setup.training->gradient_steps() == 40);
    CHECK(setup.training->environment_steps() >= environment_steps + 2 * 10);
    CHECK(setup.training->environment_steps() < environment_steps + 2 * 11 + lead + 2 * 2);
    CHECK(setup.steps[0]->steps() == 40 && setup.steps[1]->steps() == 40);
}

void stops_in_the_middle_and_goes_on() {
    Setup setup(2, 2, 16);
    setup.run(0);
    setup.training->start(int64_t(1) << 40);
    while (setup.training->gradient_steps() < 20)
        std::this_thread::yield();
    setup.training->stop();
    setup.training->join();
    const int64_t steps = setup.training->gradient_steps();
    CHECK(setup.steps[0]->steps() == steps && setup.steps[1]->steps() == steps);
    CHECK(setup.replay->size() == std::min(capacity, setup.training->environment_steps()));
    setup.run(10);
    CHECK(setup.training->gradient_steps() == steps + 10);
    CHECK(setup.steps[1]->sum() == float(steps + 10) * 1.5f);
}

void a_failure_stops_all_and_says_what() {
    for (const int learners : {1, 2}) {
        Setup setup(2, learners, 16);
        setup.run(0);
        setup.steps.back()->fail_at(5);
        std::string message;
        try {
            setup.run(100);
        } catch (const std::domain_error &error) {
            message = error.what();
        }
        CHECK(message == "reward: found NaN");
        CHECK(setup.training->gradient_steps() == 5);
        for (const auto &step : setup.steps)
            CHECK(step->steps() == 5);
        setup.steps.back()->fail_at(-1);
        setup.run(3);
        CHECK(setup.training->gradient_steps() == 8);
    }
}

void a_failure_after_the_learners_met_stops_all_too() {
    for (const int learners : {1, 2, 3}) {
        Setup setup(2, learners, 16);
        setup.run(0);
        setup.steps.back()->throw_in_last_phase_at(5);
        std::string message;
        try {
            setup.run(100);
        } catch (const std::out_of_range &error) {
            message = error.what();
        }
        CHECK(message == "index: found 7");
        CHECK(setup.training->gradient_steps() == 5);
    }
}

void weights_of_a_step_that_failed_are_not_sent() {
    for (const int learners : {1, 2}) {
        Setup setup(2, learners, 16); // weights are sent after each step
        setup.run(0);
        setup.steps[0]->throw_in_update_at(5);
        std::string message;
        try {
            setup.run(100);
        } catch (const std::domain_error &error) {
            message = error.what();
        }
        CHECK(message == "td_errors: found NaN");
        CHECK(setup.steps[0]->steps() == 5 && setup.steps[0]->published() == 4);
    }
}

// Also where the other learners would wait for its thread for ever.
void a_thread_that_cannot_begin_stops_all() {
    for (const bool in_turns : {false, true}) {
        const int threads = in_turns ? 1 : 2;
        Setup setup(threads, threads, in_turns ? 0 : 16, 2, in_turns);
        setup.run(0);
        const int64_t filled = setup.training->environment_steps();
        const int core = sched_getcpu();
        std::vector<int> cores(static_cast<size_t>(threads), core);
        cores.back() = CPU_SETSIZE;
        setup.training->place(cores, std::vector<int>(cores.size(), core));
        std::string message;
        try {
            setup.run(3);
        } catch (const std::invalid_argument &error) {
            message = error.what();
        }
        const std::string found = "core: found " + std::to_string(CPU_SETSIZE);
        CHECK(message == found + "; allowed: one that this process may use");
        CHECK(setup.training->gradient_steps() == 0 && setup.training->environment_steps() == filled);
        setup.training->place({}, {});
        setup.run(3);
        CHECK(setup.training->gradient_steps() == 3);
    }
}

class NanPolicy : public Policy {
  public:
    void take(Mailbox &) override {}
    void explore(const float *, int64_t, Random &, int64_t *, float *continuous) override {
        continuous[0] = std::numeric_limits<float>::quiet_NaN();
    }
};

void an_action_that_is_nan_is_not_taken() {
    const size_t row_bytes[5] = {12, 4, 4, 12, 1};
    std::vector<char> columns[5];
    std::vector<replay::Column> views;
    for (size_t c = 0; c < 5; ++c) {
        columns[c].resize(row_bytes[c] * capacity);
        views.push_back({columns[c].data(), row_bytes[c]});
    }
    replay::ConcurrentReplay items(capacity, views, 16, replay::ConcurrentReplay::Options{0.6, 1e-6, true});
    const auto envs = environments::make_classic("Pendulum-v1", 1, environments::Autoreset::same_step);
    NanPolicy policy;
    Actor actor(*envs, policy, TransitionColumns{0, 1, 2, 3, 4}, 0);
    float like[weights] = {};
    Mailbox mailbox(blocks(like));
    Pace pace(8, 1, 0);
    pace.begin();
    std::string message;
    try {
        actor.run(pace, mailbox, items, false);
    } catch (const std::domain_error &error) {
        message = error.what();
    }
    CHECK(message == "action: found NaN; allowed: finite numbers");
    CHECK(items.taken() == 0);
}

void weights_are_copied_between_layouts() {
    const float rows[6] = {1, 2, 3, 4, 5, 6}; // 2 x 3
    float columns[6] = {};
    copy({const_cast<float *>(rows), 2, 3, 3, 1}, {columns, 2, 3, 1, 2});
    for (int r = 0; r < 2; ++r)
        for (int c = 0; c < 3; ++c)
            CHECK(columns[c * 2 + r] == rows[r * 3 + c]);
    bool refused = false;
    try {
        const Mailbox mailbox({{columns, 2, 2, 3, 1}});
    } catch (const std::invalid_argument &) {
        refused = true;
    }
    CHECK(refused);
}

void environments_that_reset_later_are_refused() {
    const auto envs = environments::make_classic("CartPole-v1", 1, environments::Autoreset::next_step);
    CountingPolicy policy;
    bool refused = false;
    try {
        const Actor actor(*envs, policy, TransitionColumns{0, 1, 2, 3, 4}, 0);
    } catch (const std::invalid_argument &) {
        refused = true;
    }
    CHECK(refused);
}

void one_thread_in_turns_does_what_two_do() {
    for (const int64_t count : {1, 2, 3}) {
        Setup two(1, 1, 0, count), one(1, 1, 0, count, true);
        for (Setup *setup : {&two, &one})
            for (const int64_t steps : {0, 1, 60, 25})
                setup->run(steps);
        // Of two threads the actor may have been let in once more before they stopped.
        const int64_t taken = one.training->environment_steps(), after = two.training->environment_steps();
        CHECK(taken <= capacity && taken <= after && after <= taken + count);
        const size_t row_bytes[5] = {16, 8, 4, 16, 1};
        for (size_t c = 0; c < 5; ++c)
            CHECK(std::equal(one.columns[c].begin(),
                             one.columns[c].begin() + std::ptrdiff_t(row_bytes[c] * size_t(taken)),
                             two.columns[c].begin()));
        std::vector<int64_t> rows(static_cast<size_t>(taken));
        std::iota(rows.begin(), rows.end(), int64_t{0});
        std::vector<double> ours(rows.size()), theirs(rows.size());
        one.replay->priorities(rows.data(), taken, ours.data());
        two.replay->priorities(rows.data(), taken, theirs.data());
        CHECK(ours == theirs);
        CHECK(one.training->gradient_steps() == 86);
    }
    for (const auto &[actors, learners, lead] : {std::tuple{2, 1, 0}, {1, 2, 0}, {1, 1, 1}}) {
        bool refused = false;
        try {
            Setup(actors, learners, lead, 2, true);
        } catch (const std::invalid_argument &) {
            refused = true;
        }
        CHECK(refused);
    }
}

} // namespace

int main() {
    for (const int actors : {1, 2})
        for (const int learners : {1, 2, 3})
            for (const int64_t lead : {0, 32})
                counts_hold(actors, learners, lead);
    counts_hold(1, 1, 0, true);
    one_thread_in_turns_does_what_two_do();
    sides_work_alone_and_keep_in_step_afterwards();
    stops_in_the_middle_and_goes_on();
    a_failure_stops_all_and_says_what();
    a_failure_after_the_learners_met_stops_all_too();
    weights_of_a_step_that_failed_are_not_sent();
    a_thread_that_cannot_begin_stops_all();
    an_action_that_is_nan_is_not_taken();
    weights_are_copied_between_layouts();
    environments_that_reset_later_are_refused();
    return 0;
}
