// A rollout of cart-poles with actions that do not depend on anything, and its advantages, computed again
// from what the environments say step by step.
#include <cmath>
#include <limits>

#include "check.hpp"
#include "training/native/rollout.hpp"

using namespace placerl;
using namespace placerl::training;

namespace {

constexpr int64_t length = 40, count = 3, width = 4, limit = 17;

std::unique_ptr<environments::VectorEnv> cart_poles(environments::Autoreset autoreset) {
    return environments::make_classic("CartPole-v1", count, autoreset, limit);
}

int64_t action_of(int64_t step, int64_t i) { return (step / (i + 2)) % 2; }

struct Acting {
    Rollout &rollout;
    int64_t &step;

    void collect() {
        double infer_s = 0, environment_s = 0;
        Laps laps;
        rollout.collect(
            [&](const float *observations, int64_t t, std::byte *actions) {
                CHECK(observations == rollout.observations() + t * count * width);
                for (int64_t i = 0; i < count; ++i)
                    reinterpret_cast<int64_t *>(actions)[i] = action_of(step + t, i);
            },
            infer_s, environment_s, laps);
        CHECK(infer_s >= 0 && environment_s > 0);
        step += length;
    }
};

// The same environments, reset by hand.
void test_samples_are_those_of_the_environments() {
    auto envs = cart_poles(environments::Autoreset::same_step),
         same = cart_poles(environments::Autoreset::disabled);
    std::vector<float> first(size_t(count * width)), seen(first.size());
    envs->reset_all(7, first.data());
    same->reset_all(7, seen.data());
    Rollout rollout(*envs, first.data(), length);
    CHECK(rollout.samples() == length * count && rollout.discrete() && rollout.action_bytes() == 8);
    int64_t step = 0, checked = 0, cut = 0, fallen = 0;
    double returns[count] = {};
    for (int iteration = 0; iteration < 3; ++iteration) {
        Acting{rollout, step}.collect();
        size_t end = 0;
        const auto &ends = rollout.open_ends();
        const std::vector<Episode> episodes = rollout.take_episodes();
        size_t episode = 0;
        for (int64_t t = 0; t < length; ++t, ++checked) {
            int64_t actions[count];
            double rewards[count];
            bool terminated[count], truncated[count], over[count];
            for (int64_t i = 0; i < count; ++i) {
                actions[i] = action_of(checked, i);
                CHECK(reinterpret_cast<const int64_t *>(rollout.actions())[t * count + i] == actions[i]);
            }
            for (int64_t k = 0; k < count * width; ++k)
                CHECK(rollout.observations()[t * count * width + k] == seen[size_t(k)]);
            same->step({actions, nullptr}, {seen.data(), rewards, terminated, truncated});
            for (int64_t i = 0; i < count; ++i) {
                const int64_t s = t * count + i;
                CHECK(rollout.rewards()[s] == float(rewards[i]));
                CHECK(rollout.terminated()[s] == terminated[i] && rollout.truncated()[s] == truncated[i]);
                over[i] = terminated[i] | truncated[i];
                returns[i] += rewards[i];
                if (over[i]) {
                    CHECK(episode < episodes.size());
                    CHECK(episodes[episode].environment_step == checked * count + i + 1);
                    CHECK(episodes[episode++].total_reward == returns[i]);
                    returns[i] = 0;
                }
                cut += truncated[i] && !terminated[i], fallen += terminated[i];
                if (!terminated[i] && (truncated[i] || t == length - 1)) {
                    CHECK(end < ends.size() && ends[end].sample == s);
                    for (int64_t k = 0; k < width; ++k)
                        CHECK(ends[end].observation[k] == seen[size_t(i * width + k)]);
                    ++end;
                }
            }
            same->reset(nullptr, over, seen.data());
        }
        CHECK(end == ends.size() && episode == episodes.size());
    }
    CHECK(cut > 0 && fallen > 0);
    CHECK(rollout.environment_steps() == 3 * length * count);
}

// Equation by equation, forwards: A_t = sum over l of (gamma lambda)^l delta_{t+l}, as far as the episode
// lasts.
void test_advantages_are_sums_of_deltas() {
    auto envs = cart_poles(environments::Autoreset::same_step);
    std::vector<float> first(size_t(count * width)), value, next, advantage(size_t(length * count));
    envs->reset_all(1, first.data());
    Rollout rollout(*envs, first.data(), length);
    int64_t step = 0;
    Acting{rollout, step}.collect();
    for (int64_t s = 0; s < rollout.samples(); ++s) {
        value.push_back(float(s % 7) - 3);
        next.push_back(rollout.terminated()[s] ? std::numeric_limits<float>::quiet_NaN() : float(s % 5));
    }
    const double gamma = 0.9, gae_lambda = 0.8;
    Advantages{gamma, gae_lambda}.estimate(rollout, value.data(), next.data(), advantage.data());
    for (int64_t s = 0; s < rollout.samples(); ++s) {
        double sum = 0, weight = 1;
        for (int64_t from = s; from < rollout.samples(); from += count) {
            const double after = rollout.terminated()[from] ? 0 : next[size_t(from)];
            sum += weight * (rollout.rewards()[from] + gamma * after - value[size_t(from)]);
            weight *= gamma * gae_lambda;
            if (rollout.terminated()[from] || rollout.truncated()[from])
                break;
        }
        CHECK(std::abs(sum - advantage[size_t(s)]) < 1e-5);
    }
}

void test_actions_are_clipped_then_scaled() {
    auto envs = environments::make_classic("Pendulum-v1", 2, environments::Autoreset::same_step);
    auto same = environments::make_classic("Pendulum-v1", 2, environments::Autoreset::same_step);
    float first[6], seen[6];
    envs->reset_all(0, first);
    same->reset_all(0, seen);
    Rollout rollout(*envs, first, 2);
    const float chosen[2] = {-1.5f, 0.25f}, applied[2] = {-2, 0.5f};
    double spent = 0, rewards[2];
    bool terminated[2], truncated[2];
    Laps laps;
    rollout.collect([&](const float *, int64_t, std::byte *actions) { std::memcpy(actions, chosen, 8); },
                    spent, spent, laps);
    for (int64_t t = 0; t < 2; ++t) {
        for (int k = 0; k < 2; ++k) // stored as drawn
            CHECK(reinterpret_cast<const float *>(rollout.actions())[2 * t + k] == chosen[k]);
        for (int k = 0; k < 6; ++k)
            CHECK(rollout.observations()[6 * t + k] == seen[k]);
        same->step({nullptr, applied}, {seen, rewards, terminated, truncated});
        for (int k = 0; k < 2; ++k)
            CHECK(rollout.rewards()[2 * t + k] == float(rewards[k]));
    }
    const auto bad = [&](const float *, int64_t, std::byte *actions) {
        const float numbers[2] = {0, std::numeric_limits<float>::quiet_NaN()};
        std::memcpy(actions, numbers, 8);
    };
    // The first step of these was taken, and what follows goes on from it.
    float after[6];
    same->step({nullptr, applied}, {after, rewards, terminated, truncated});
    bool refused = false;
    try {
        rollout.collect(
            [&](const float *observations, int64_t t, std::byte *actions) {
                t ? bad(observations, t, actions) : void(std::memcpy(actions, chosen, 8));
            },
            spent, spent, laps);
    } catch (const std::domain_error &) {
        refused = true;
    }
    CHECK(refused && rollout.taken() == 1);
    rollout.collect(
        [&](const float *observations, int64_t t, std::byte *actions) {
            for (int k = 0; k < 6 && !t; ++k)
                CHECK(observations[k] == after[k]);
            std::memcpy(actions, chosen, 8);
        },
        spent, spent, laps);
    CHECK(rollout.taken() == 2 && rollout.open_ends().size() == 2);
}

} // namespace

int main() {
    test_samples_are_those_of_the_environments();
    test_advantages_are_sums_of_deltas();
    test_actions_are_clipped_then_scaled();
}
