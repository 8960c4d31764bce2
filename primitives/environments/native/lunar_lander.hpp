// LunarLander-v3 of Gymnasium 1.x, with discrete or continuous actions, on Box2D's own C++
// (cmake/box2d.cmake).
#pragma once

#include <cstdint>
#include <memory>

#include "environments/native/vector_env.hpp"

namespace placerl::environments {

// Gymnasium's arguments of the same names.
struct LunarLanderOptions {
    bool continuous = false;
    double gravity = -10;
    bool enable_wind = false;
    double wind_power = 15, turbulence_power = 1.5;
};

// Whether this build has Box2D. Without it, `make_lunar_lander` throws std::invalid_argument.
bool has_box2d();

// `episode_steps` as make_classic's. A reset allocates here: Box2D's world is a new one, as Gymnasium's is.
std::unique_ptr<VectorEnv> make_lunar_lander(int64_t count, Autoreset autoreset, int64_t episode_steps,
                                             const LunarLanderOptions &options);

} // namespace placerl::environments
