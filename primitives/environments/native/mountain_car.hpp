// MountainCar-v0 and MountainCarContinuous-v0 of Gymnasium 1.x.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "environments/native/random.hpp"
#include "environments/native/trigonometry.hpp"
#include "environments/native/vector_env.hpp"

namespace placerl::environments {

constexpr double car_position_min = -1.2, car_position_max = 0.6, car_speed_max = 0.07;

inline Spec mountain_car_spec(bool continuous) {
    Spec spec;
    spec.id = continuous ? "MountainCarContinuous-v0" : "MountainCar-v0";
    spec.observation_width = 2;
    spec.action_count = continuous ? 0 : 3;
    spec.observation_low = {float(car_position_min), float(-car_speed_max)};
    spec.observation_high = {float(car_position_max), float(car_speed_max)};
    spec.episode_steps = continuous ? 999 : 200;
    if (continuous)
        spec.action_low = {-1}, spec.action_high = {1};
    return spec;
}

class MountainCar {
  public:
    using Action = int64_t;

    explicit MountainCar(int64_t count) : states_(count) {}

    void reset(int64_t i, Pcg64 &random) { states_[i] = {random.uniform(-0.6, -0.4 - -0.6), 0}; }

    bool step(int64_t i, const int64_t *action, double &reward) {
        State &state = states_[i];
        double speed = state.speed + (double(*action - 1) * 0.001 + std::cos(3 * state.position) * -0.0025);
        speed = std::min(std::max(speed, -car_speed_max), car_speed_max);
        double position = state.position + speed;
        position = std::min(std::max(position, car_position_min), car_position_max);
        if (position == car_position_min && speed < 0)
            speed = 0;
        state = {position, speed};
        reward = -1;
        return position >= 0.5 && speed >= 0;
    }

    template <typename Number>
    void observe(int64_t i, Number *row) const {
        row[0] = Number(float(states_[i].position));
        row[1] = Number(float(states_[i].speed));
    }

    void info(int64_t, double *, bool) const {}

  private:
    struct State {
        double position, speed;
    };

    std::vector<State> states_;
};

// Gymnasium stores this state as floats, but a new episode's as doubles: the first step has other arithmetic
// than those that follow. Beside a NumPy float a Python number is rounded to a float.
class MountainCarContinuous {
  public:
    using Action = float;

    explicit MountainCarContinuous(int64_t count) : states_(count) {}

    void reset(int64_t i, Pcg64 &random) { states_[i] = {random.uniform(-0.6, -0.4 - -0.6), 0, true}; }

    bool step(int64_t i, const float *action, double &reward) {
        State &state = states_[i];
        const bool done = state.is_new ? advance<double>(state, *action) : advance<float>(state, *action);
        reward = done ? 100.0 : 0.0;
        reward -= power_2(double(*action)) * 0.1;
        return done;
    }

    template <typename Number>
    void observe(int64_t i, Number *row) const {
        row[0] = Number(float(states_[i].position));
        row[1] = Number(float(states_[i].speed));
    }

    void info(int64_t, double *, bool) const {}

  private:
    struct State {
        double position, speed;
        bool is_new;
    };

    template <typename Real>
    static bool advance(State &state, float action) {
        Real position = Real(state.position), speed = Real(state.speed);
        const double slope = 0.0025 * std::cos(double(Real(3) * position));
        if (action < -1 || action > 1) // clipped to a Python number, so that doubles are subtracted
            speed += Real((action < 0 ? -1.0 : 1.0) * 0.0015 - slope);
        else
            speed += Real(action * 0.0015f - float(slope));
        if (speed > Real(car_speed_max))
            speed = Real(car_speed_max);
        if (speed < Real(-car_speed_max))
            speed = Real(-car_speed_max);
        position += speed;
        if (position > Real(car_position_max))
            position = Real(car_position_max);
        if (position < Real(car_position_min))
            position = Real(car_position_min);
        if (position == Real(car_position_min) && speed < 0)
            speed = 0;
        // A position or speed that was set to its bound is compared as a double, but no bound is near the
        // goal.
        const bool done = position >= Real(0.45) && speed >= 0;
        state = {double(float(position)), double(float(speed)), false};
        return done;
    }

    std::vector<State> states_;
};

} // namespace placerl::environments
