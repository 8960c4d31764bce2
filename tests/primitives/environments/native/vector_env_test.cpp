// The vector of environments without Python: NumPy's draws, the three modes of autoreset, time limits, masks,
// and one vector in each of several threads (for the sanitizers).
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "check.hpp"
#include "environments/native/lunar_lander.hpp"
#include "environments/native/random.hpp"
#include "environments/native/vector_env.hpp"

using namespace placerl::environments;

namespace {

std::unique_ptr<VectorEnv> make(const std::string &id, int64_t count, Autoreset autoreset, int64_t steps) {
    if (!id.starts_with("LunarLander"))
        return make_classic(id, count, autoreset, steps);
    return make_lunar_lander(count, autoreset, steps,
                             {.continuous = id == "LunarLanderContinuous-v3", .enable_wind = true});
}

// A vector and the arrays that it writes.
struct Run {
    std::unique_ptr<VectorEnv> env;
    std::vector<float> observations, final_observations, continuous;
    std::vector<double> rewards, returns;
    std::vector<int64_t> lengths, discrete;
    std::unique_ptr<bool[]> terminated, truncated;
    std::mt19937_64 random{1};

    Run(const std::string &id, int64_t count, Autoreset autoreset, int64_t episode_steps = -1)
        : env(make(id, count, autoreset, episode_steps)), observations(count * width()),
          final_observations(count * width()), continuous(count * env->spec().action_width), rewards(count),
          returns(count), lengths(count), discrete(count), terminated(new bool[count]),
          truncated(new bool[count]) {
        env->reset_all(7, observations.data());
    }

    int width() const { return env->spec().observation_width; }

    void step() {
        for (int64_t &action : discrete)
            action = int64_t(random() % uint64_t(std::max<int64_t>(1, env->spec().action_count)));
        for (float &action : continuous)
            action = float(random() % 2000) / 500 - 2;
        Outputs<float> outputs{observations.data(), rewards.data(), terminated.get(), truncated.get()};
        outputs.final_observations = final_observations.data();
        outputs.episode_returns = returns.data();
        outputs.episode_lengths = lengths.data();
        env->step({discrete.data(), continuous.data()}, outputs);
    }
};

// numpy.random.Generator(PCG64(12345)): two uniforms, then two normals; or integers, of which two are one
// word.
void check_random() {
    Pcg64 random;
    random.seed(12345);
    CHECK(random.uniform(0, 1) == 0.22733602246716966);
    CHECK(random.uniform(-1, 2) == -0.36648332058049427);
    CHECK(random.normal() == -0.8706617379590857);
    CHECK(random.normal() == -0.2591732349343976);
    random.seed(12345);
    for (const int64_t expected : {3983, -5453, 5772})
        CHECK(random.integer(-9999, 9999) == expected);
    CHECK(random.next_double() == 0.7973654573327341);
    CHECK(random.integer(-9999, 9999) == -3665);
    random.seed(0xfedcba9876543210u);
    CHECK(random.next() == 9844195068100054067u);
}

void check_same_step() {
    Run run("CartPole-v1", 16, Autoreset::same_step);
    int64_t ends = 0;
    for (int t = 0; t < 500; ++t) {
        run.step();
        for (int64_t i = 0; i < 16; ++i) {
            CHECK(run.rewards[i] == 1);
            CHECK(run.returns[i] == double(run.lengths[i]));
            CHECK(!run.env->over()[i]);
            const float x = run.observations[4 * i], theta = run.observations[4 * i + 2];
            CHECK(std::abs(x) <= 2.4f && std::abs(theta) <= 0.2095f);
            if (run.terminated[i]) {
                ++ends;
                CHECK(std::abs(run.final_observations[4 * i]) > 2.4f ||
                      std::abs(run.final_observations[4 * i + 2]) > 0.2094f);
                CHECK(std::abs(x) <= 0.05f && std::abs(theta) <= 0.05f);
            }
        }
    }
    CHECK(ends > 100);
}

void check_next_step() {
    Run run("MountainCar-v0", 3, Autoreset::next_step, 5);
    for (int t = 1; t <= 30; ++t) {
        run.step();
        for (int64_t i = 0; i < 3; ++i) {
            CHECK(!run.terminated[i]);
            CHECK(run.truncated[i] == (t % 6 == 5));
            CHECK(run.rewards[i] == (t % 6 == 0 ? 0 : -1));
            CHECK(run.lengths[i] == t % 6);
            CHECK(run.env->over()[i] == (t % 6 == 5));
        }
    }
}

void check_disabled() {
    Run run("Pendulum-v1", 2, Autoreset::disabled, 4);
    for (int t = 0; t < 4; ++t)
        run.step();
    CHECK(run.truncated[0] && run.truncated[1]);
    const std::vector<float> before = run.observations;
    const bool mask[2] = {false, true};
    run.env->reset(nullptr, mask, run.observations.data());
    CHECK(run.env->over()[0] && !run.env->over()[1]);
    for (int k = 0; k < 3; ++k)
        CHECK(run.observations[k] == before[k]);
    CHECK(run.observations[3] != before[3]);
}

void check_actions() {
    const int64_t discrete[2] = {1, 2};
    CHECK(make_classic("CartPole-v1", 2, Autoreset::disabled)->first_invalid({.discrete = discrete}) == 1);
    const float continuous[2] = {-9, NAN};
    CHECK(make_classic("Pendulum-v1", 2, Autoreset::disabled)->first_invalid({.continuous = continuous}) ==
          1);
    CHECK(make_classic("Pendulum-v1", 1, Autoreset::disabled)->first_invalid({.continuous = continuous}) ==
          -1);
    CHECK(!make_classic("Pong-v0", 1, Autoreset::disabled));
}

// Two threads with vectors of their own, from the same seeds and actions, see the same.
void check_threads() {
    std::vector<std::string> ids = classic_ids();
    if (has_box2d())
        ids.insert(ids.end(), {"LunarLander-v3", "LunarLanderContinuous-v3"});
    for (const std::string &id : ids) {
        Run first(id, 8, Autoreset::same_step), second(id, 8, Autoreset::same_step);
        const auto go = [](Run &run) {
            for (int t = 0; t < 300; ++t)
                run.step();
        };
        std::thread other(go, std::ref(first));
        go(second);
        other.join();
        CHECK(first.observations == second.observations);
        CHECK(first.returns == second.returns);
    }
}

} // namespace

int main() {
    check_random();
    check_same_step();
    check_next_step();
    check_disabled();
    check_actions();
    check_threads();
    return 0;
}
