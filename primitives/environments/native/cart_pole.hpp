// CartPole-v1 of Gymnasium 1.x, and this project's ContinuousCartPole-v0
// (harness/environments/continuous_cartpole.py).
#pragma once

#include <algorithm>
#include <limits>
#include <numbers>
#include <vector>

#include "environments/native/block.hpp"
#include "environments/native/random.hpp"
#include "environments/native/trigonometry.hpp"
#include "environments/native/vector_env.hpp"

namespace placerl::environments {

constexpr double cart_pole_theta_max = 12 * 2 * std::numbers::pi / 360, cart_pole_x_max = 2.4;

// Both environments: one starting state, one end of an episode and a reward of 1 for every step. `Push` has
// the type of an action, its force, and the accelerations. The states are columns, so that the arithmetic of
// a block of environments is done with vectors; the sines before it are the C library's, one by one.
template <typename Push>
class CartPoles {
  public:
    using Action = typename Push::Action;

    explicit CartPoles(int64_t count) : x_(count), x_dot_(count), theta_(count), theta_dot_(count) {}

    void reset(int64_t i, Pcg64 &random) {
        const double low = -0.05, range = 0.05 - low;
        x_[i] = random.uniform(low, range);
        x_dot_[i] = random.uniform(low, range);
        theta_[i] = random.uniform(low, range);
        theta_dot_[i] = random.uniform(low, range);
    }

    void step_block(int64_t first, int count, const Action *__restrict actions, double *__restrict rewards,
                    bool *__restrict terminated) {
        double sines[block], cosines[block], forces[block];
        double *__restrict x = x_.data() + first, *__restrict x_dot = x_dot_.data() + first;
        double *__restrict theta = theta_.data() + first, *__restrict theta_dot = theta_dot_.data() + first;
        const bool numpy = detail::numpy_doubles;
        for (int k = 0; k < count; ++k) {
            Push::turn(theta[k], numpy, sines[k], cosines[k]);
            forces[k] = Push::force(actions[k]);
        }
        for (int k = 0; k < count; ++k) {
            const double tau = 0.02;
            double acceleration, angular;
            Push::accelerate(forces[k], theta_dot[k], sines[k], cosines[k], acceleration, angular);
            x[k] = x[k] + tau * x_dot[k];
            x_dot[k] = x_dot[k] + tau * acceleration;
            theta[k] = theta[k] + tau * theta_dot[k];
            theta_dot[k] = theta_dot[k] + tau * angular;
            rewards[k] = 1;
        }
        for (int k = 0; k < count; ++k)
            terminated[k] = (x[k] < -cart_pole_x_max) | (x[k] > cart_pole_x_max) |
                            (theta[k] < -cart_pole_theta_max) | (theta[k] > cart_pole_theta_max);
    }

    template <typename Number>
    void observe(int64_t i, Number *row) const {
        row[0] = Number(float(x_[i]));
        row[1] = Number(float(x_dot_[i]));
        row[2] = Number(float(theta_[i]));
        row[3] = Number(float(theta_dot_[i]));
    }

    void info(int64_t, double *, bool) const {}

  private:
    std::vector<double> x_, x_dot_, theta_, theta_dot_;
};

struct CartPoleConstants {
    static constexpr double gravity = 9.8, pole_mass = 0.1, total_mass = 0.1 + 1.0, length = 0.5;
    static constexpr double pole_mass_length = 0.1 * 0.5, force_n = 10.0;
};

struct CartPole : CartPoleConstants {
    using Action = int64_t;

    static void turn(double angle, bool numpy, double &sin, double &cos) {
        environments::turn(angle, numpy, sin, cos);
    }
    // Without a branch, which a random action would mislead.
    static double force(int64_t action) { return force_n * double(2 * action - 1); }
    static void accelerate(double force, double theta_dot, double sin, double cos, double &acceleration,
                           double &angular) {
        const double drive = (force + pole_mass_length * (theta_dot * theta_dot) * sin) / total_mass;
        angular =
            (gravity * sin - cos * drive) / (length * (4.0 / 3.0 - pole_mass * (cos * cos) / total_mass));
        acceleration = drive - pole_mass_length * angular * cos / total_mass;
    }
};

// Its products are written from left to right, and its sine and cosine are Python's.
struct ContinuousCartPole : CartPoleConstants {
    using Action = float;

    static void turn(double angle, bool, double &sin, double &cos) {
        sin = std::sin(angle);
        cos = std::cos(angle);
    }
    static double force(float action) { return force_n * std::min(1.0, std::max(-1.0, double(action))); }
    static void accelerate(double force, double theta_dot, double sin, double cos, double &acceleration,
                           double &angular) {
        const double drive = (force + pole_mass_length * theta_dot * theta_dot * sin) / total_mass;
        angular = (gravity * sin - cos * drive) / (length * (4.0 / 3.0 - pole_mass * cos * cos / total_mass));
        acceleration = drive - pole_mass_length * angular * cos / total_mass;
    }
};

inline Spec cart_pole_spec(bool continuous) {
    const float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> high{float(cart_pole_x_max * 2), infinity, float(cart_pole_theta_max * 2),
                                  infinity};
    Spec spec;
    spec.id = continuous ? "ContinuousCartPole-v0" : "CartPole-v1";
    spec.observation_width = 4;
    spec.action_count = continuous ? 0 : 2;
    spec.episode_steps = 500;
    spec.observation_high = high;
    for (float bound : high)
        spec.observation_low.push_back(-bound);
    if (continuous)
        spec.action_low = {-1}, spec.action_high = {1};
    return spec;
}

} // namespace placerl::environments
