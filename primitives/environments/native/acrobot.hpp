// Acrobot-v1 of Gymnasium 1.x: the equations of Sutton and Barto's book, a Runge-Kutta step of 0.2 s.
#pragma once

#include <algorithm>
#include <numbers>
#include <vector>

#include "environments/native/random.hpp"
#include "environments/native/trigonometry.hpp"
#include "environments/native/vector_env.hpp"

namespace placerl::environments {

class Acrobot {
  public:
    using Action = int64_t;

    explicit Acrobot(int64_t count) : states_(count) {}

    // Gymnasium begins with floats, whose first observation is computed in floats.
    void reset(int64_t i, Pcg64 &random) {
        State &state = states_[i];
        float start[4];
        for (float &number : start)
            number = float(random.uniform(-0.1, 0.1 - -0.1));
        for (int k = 0; k < 4; ++k)
            state.at[k] = start[k];
        state.seen[0] = cosine(start[0]);
        state.seen[1] = sine(start[0]);
        state.seen[2] = cosine(start[1]);
        state.seen[3] = sine(start[1]);
        turn(state.at[1], state.sine_2, state.cosine_2);
    }

    bool step(int64_t i, const int64_t *action, double &reward) {
        State &state = states_[i];
        const double torque = double(*action - 1);
        const double dt = 0.2, half = dt / 2.0;
        double next[4], k1[4], k2[4], k3[4], k4[4];
        const double *const at = state.at;
        derive(at, state.cosine_2, state.sine_2, torque, k1);
        for (int k = 0; k < 4; ++k)
            next[k] = at[k] + half * k1[k];
        derive(next, torque, k2);
        for (int k = 0; k < 4; ++k)
            next[k] = at[k] + half * k2[k];
        derive(next, torque, k3);
        for (int k = 0; k < 4; ++k)
            next[k] = at[k] + dt * k3[k];
        derive(next, torque, k4);
        for (int k = 0; k < 4; ++k)
            next[k] = at[k] + dt / 6.0 * (k1[k] + 2 * k2[k] + 2 * k3[k] + k4[k]);
        state.at[0] = wrap(next[0]);
        state.at[1] = wrap(next[1]);
        state.at[2] = std::min(std::max(next[2], -4 * pi), 4 * pi);
        state.at[3] = std::min(std::max(next[3], -9 * pi), 9 * pi);
        double sine_1, cosine_1;
        turn(state.at[0], sine_1, cosine_1);
        turn(state.at[1], state.sine_2, state.cosine_2);
        state.seen[0] = float(cosine_1);
        state.seen[1] = float(sine_1);
        state.seen[2] = float(state.cosine_2);
        state.seen[3] = float(state.sine_2);
        const bool done = -cosine_1 - cosine(state.at[1] + state.at[0]) > 1.0;
        reward = done ? 0.0 : -1.0;
        return done;
    }

    template <typename Number>
    void observe(int64_t i, Number *row) const {
        const State &state = states_[i];
        for (int k = 0; k < 4; ++k)
            row[k] = Number(state.seen[k]);
        row[4] = Number(float(state.at[2]));
        row[5] = Number(float(state.at[3]));
    }

    void info(int64_t, double *, bool) const {}

    static Spec spec() {
        Spec spec;
        spec.id = "Acrobot-v1";
        spec.observation_width = 6;
        spec.action_count = 3;
        spec.observation_high = {1, 1, 1, 1, float(4 * pi), float(9 * pi)};
        for (float bound : spec.observation_high)
            spec.observation_low.push_back(-bound);
        spec.episode_steps = 500;
        return spec;
    }

  private:
    static constexpr double pi = std::numbers::pi;

    struct State {
        double at[4]; // two angles, two angular velocities
        double cosine_2, sine_2;
        float seen[4];
    };

    static double wrap(double angle) {
        const double turn = pi - -pi;
        while (angle > pi)
            angle = angle - turn;
        while (angle < -pi)
            angle = angle + turn;
        return angle;
    }

    static void derive(const double *at, double torque, double *rate) {
        double sine_2, cosine_2;
        turn(at[1], sine_2, cosine_2);
        derive(at, cosine_2, sine_2, torque, rate);
    }

    // Masses, lengths and moments of inertia are 1, centres of mass half-way; products with 1 are left out.
    static void derive(const double *at, double cosine_2, double sine_2, double torque, double *rate) {
        const double theta_1 = at[0], theta_2 = at[1], dot_1 = at[2], dot_2 = at[3];
        const double d1 = 0.25 + (1.25 + cosine_2) + 1.0 + 1.0;
        const double d2 = (0.25 + 0.5 * cosine_2) + 1.0;
        const double phi2 = 0.5 * 9.8 * cosine(theta_1 + theta_2 - pi / 2.0);
        const double phi1 = -0.5 * power_2(dot_2) * sine_2 - dot_2 * dot_1 * sine_2 +
                            1.5 * 9.8 * cosine(theta_1 - pi / 2) + phi2;
        const double acceleration_2 = (torque + d2 / d1 * phi1 - 0.5 * power_2(dot_1) * sine_2 - phi2) /
                                      (0.25 + 1.0 - power_2(d2) / d1);
        rate[0] = dot_1;
        rate[1] = dot_2;
        rate[2] = -(d2 * acceleration_2 + phi1) / d1;
        rate[3] = acceleration_2;
    }

    std::vector<State> states_;
};

} // namespace placerl::environments
