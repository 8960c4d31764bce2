// Pendulum-v1 of Gymnasium 1.x.
#pragma once

#include <algorithm>
#include <limits>
#include <numbers>
#include <vector>

#include "environments/native/random.hpp"
#include "environments/native/trigonometry.hpp"
#include "environments/native/vector_env.hpp"

namespace placerl::environments {

class Pendulum {
  public:
    using Action = float;

    explicit Pendulum(int64_t count) : states_(count) {}

    void reset(int64_t i, Pcg64 &random) {
        State &state = states_[i];
        state.theta = random.uniform(-pi, pi - -pi);
        state.theta_dot = random.uniform(-1.0, 2.0);
        turn(state.theta, state.sine, state.cosine);
    }

    // The torque stays a float, as NumPy's numbers of that type do beside Python's.
    bool step(int64_t i, const float *action, double &reward) {
        State &state = states_[i];
        const float torque = std::min(std::max(*action, -2.0f), 2.0f);
        const double angle = modulo(state.theta + pi, 2 * pi) - pi;
        const double cost = power_2(angle) + 0.1 * power_2(state.theta_dot) + 0.001f * power_2(torque);
        double speed = state.theta_dot + (15.0 * state.sine + 3.0f * torque) * 0.05;
        speed = std::min(std::max(speed, -8.0), 8.0);
        state.theta = state.theta + speed * 0.05;
        state.theta_dot = speed;
        turn(state.theta, state.sine, state.cosine);
        reward = -cost;
        return false;
    }

    template <typename Number>
    void observe(int64_t i, Number *row) const {
        const State &state = states_[i];
        row[0] = Number(float(state.cosine));
        row[1] = Number(float(state.sine));
        row[2] = Number(float(state.theta_dot));
    }

    void info(int64_t, double *, bool) const {}

    static Spec spec() {
        Spec spec;
        spec.id = "Pendulum-v1";
        spec.observation_width = 3;
        spec.action_low = {-2};
        spec.action_high = {2};
        spec.observation_low = {-1, -1, -8};
        spec.observation_high = {1, 1, 8};
        spec.episode_steps = 200;
        return spec;
    }

  private:
    static constexpr double pi = std::numbers::pi;

    // The observation and the next step need both.
    struct State {
        double theta, theta_dot, cosine, sine;
    };

    std::vector<State> states_;
};

} // namespace placerl::environments
