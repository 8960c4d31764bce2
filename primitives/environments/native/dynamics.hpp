// The physics of `environments/dynamics`, which devices compile too, for the native environments.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "environments/native/random.hpp"
#include "environments/native/trigonometry.hpp"
#include "environments/native/vector_env.hpp"

namespace placerl::environments {

#define FUNCTION inline
#define LONG int64_t
#include "environments/dynamics/numbers.h"
// After the numbers.
#include "environments/dynamics/acrobot.h"
#include "environments/dynamics/cart_pole.h"
#include "environments/dynamics/mountain_car.h"
#include "environments/dynamics/pendulum.h"
#undef LONG
#undef FUNCTION

// Physics of a Stepper, from the functions of one environment: `size` doubles a state, `draws` random numbers
// to begin an episode, `width` numbers observed.
template <typename Number, int size, int draws, int width, auto start, auto advance, auto see>
class Dynamics {
  public:
    using Action = Number;

    explicit Dynamics(int64_t count) : states_(count) {}

    void reset(int64_t i, Pcg64 &random) {
        double drawn[draws];
        for (double &draw : drawn)
            draw = random.next_double();
        start(states_[i].data(), drawn);
    }

    bool step(int64_t i, const Action *action, double &reward) {
        return advance(states_[i].data(), *action, &reward);
    }

    template <typename Observed>
    void observe(int64_t i, Observed *row) const {
        float seen[width];
        see(states_[i].data(), seen);
        for (int k = 0; k < width; ++k)
            row[k] = Observed(seen[k]);
    }

    void info(int64_t, double *, bool) const {}

  private:
    std::vector<std::array<double, size>> states_;
};

using Acrobot =
    Dynamics<int64_t, ACROBOT_STATE, ACROBOT_DRAWS, 6, acrobot_start, acrobot_step, acrobot_observe>;
using MountainCar = Dynamics<int64_t, MOUNTAIN_CAR_STATE, MOUNTAIN_CAR_DRAWS, 2, mountain_car_start,
                             mountain_car_step, mountain_car_observe>;
using MountainCarContinuous =
    Dynamics<float, MOUNTAIN_CAR_CONTINUOUS_STATE, MOUNTAIN_CAR_CONTINUOUS_DRAWS, 2,
             mountain_car_continuous_start, mountain_car_continuous_step, mountain_car_continuous_observe>;
using Pendulum =
    Dynamics<float, PENDULUM_STATE, PENDULUM_DRAWS, 3, pendulum_start, pendulum_step, pendulum_observe>;

inline Spec acrobot_spec() {
    Spec spec;
    spec.id = "Acrobot-v1";
    spec.observation_width = 6;
    spec.action_count = 3;
    spec.observation_high = {1, 1, 1, 1, float(4 * ENVIRONMENT_PI), float(9 * ENVIRONMENT_PI)};
    for (float bound : spec.observation_high)
        spec.observation_low.push_back(-bound);
    spec.episode_steps = 500;
    return spec;
}

inline Spec mountain_car_spec(bool continuous) {
    Spec spec;
    spec.id = continuous ? "MountainCarContinuous-v0" : "MountainCar-v0";
    spec.observation_width = 2;
    spec.action_count = continuous ? 0 : 3;
    spec.observation_low = {float(MOUNTAIN_CAR_MIN), float(-MOUNTAIN_CAR_SPEED_MAX)};
    spec.observation_high = {float(MOUNTAIN_CAR_MAX), float(MOUNTAIN_CAR_SPEED_MAX)};
    spec.episode_steps = continuous ? 999 : 200;
    if (continuous)
        spec.action_low = {-1}, spec.action_high = {1};
    return spec;
}

inline Spec pendulum_spec() {
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

} // namespace placerl::environments
