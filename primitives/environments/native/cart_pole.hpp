// CartPole-v1 of Gymnasium 1.x, and this project's ContinuousCartPole-v0
// (harness/environments/continuous_cartpole.py).
#pragma once

#include <limits>
#include <vector>

#include "environments/native/block.hpp"
#include "environments/native/dynamics.hpp"

namespace placerl::environments {

// Both environments: one starting state, one end of an episode and a reward of 1 for every step. `Push` has
// the type of an action, its force, and the accelerations. The states are columns, so that the arithmetic of
// a block of environments is done with vectors; the sines before it are the C library's, one by one.
template <typename Push>
class CartPoles {
  public:
    using Action = typename Push::Action;

    explicit CartPoles(int64_t count) : x_(count), x_dot_(count), theta_(count), theta_dot_(count) {}

    void reset(int64_t i, Pcg64 &random) {
        for (std::vector<double> *column : {&x_, &x_dot_, &theta_, &theta_dot_})
            (*column)[i] = cart_pole_draw(random.next_double());
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
            double acceleration, angular;
            Push::accelerate(forces[k], theta_dot[k], sines[k], cosines[k], &acceleration, &angular);
            cart_pole_move(x + k, x_dot + k, theta + k, theta_dot + k, acceleration, angular);
            rewards[k] = 1;
        }
        for (int k = 0; k < count; ++k)
            terminated[k] = cart_pole_fell(x[k], theta[k]);
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

struct CartPole {
    using Action = int64_t;

    static void turn(double angle, bool numpy, double &sin, double &cos) {
        environments::turn(angle, numpy, &sin, &cos);
    }
    static constexpr auto force = cart_pole_force;
    static constexpr auto accelerate = cart_pole_accelerate;
};

struct ContinuousCartPole {
    using Action = float;

    static void turn(double angle, bool, double &sin, double &cos) {
        sin = std::sin(angle);
        cos = std::cos(angle);
    }
    static constexpr auto force = continuous_cart_pole_force;
    static constexpr auto accelerate = continuous_cart_pole_accelerate;
};

inline Spec cart_pole_spec(bool continuous) {
    const float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> high{float(CART_POLE_X_MAX * 2), infinity, float(CART_POLE_THETA_MAX * 2),
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
