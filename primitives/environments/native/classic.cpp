// Classic control by Gymnasium's id. Compiled without fused products and sums: Gymnasium's arithmetic has
// none.
#include <functional>
#include <map>

#include "environments/native/cart_pole.hpp"
#include "environments/native/dynamics.hpp"
#include "environments/native/stepper.hpp"

namespace placerl::environments {

namespace detail {
NumpyLoops numpy_loops;
bool numpy_doubles = false;
bool pow_is_near = true;
double two = 2;

namespace {

// Whether `power_2` gives what the C library gives, over a sample of numbers of all sizes that occur.
bool powers_agree() {
    Pcg64 random;
    random.seed(1);
    for (int k = 0; k < 20000; ++k) {
        const double x = random.uniform(-1, 2) * double(1 << (k % 6));
        if (power_2(x) != ::pow(x, two) || power_2_float(float(x)) != ::powf(float(x), float(two)))
            return false;
    }
    return true;
}

const bool powers_checked = (pow_is_near = powers_agree());

} // namespace
} // namespace detail

bool use_numpy(const NumpyLoops &loops) {
    // Angles of all sizes that occur, from the small ones of a pole to turns of Acrobot.
    Pcg64 random;
    random.seed(0);
    bool same = true;
    for (int k = 0; k < 20000 && same; ++k) {
        const double angle = random.uniform(-0.5, 1.0) * double(1 << (k % 6));
        same = loops.sine(angle) == std::sin(angle) && loops.cosine(angle) == std::cos(angle);
    }
    detail::numpy_loops = loops;
    detail::numpy_doubles = !same;
    return same;
}

namespace {

template <typename Physics>
auto maker(Spec (*spec_of)()) {
    return
        [spec_of](int64_t count, Autoreset autoreset, int64_t episode_steps) -> std::unique_ptr<VectorEnv> {
            Spec spec = spec_of();
            if (episode_steps >= 0)
                spec.episode_steps = episode_steps;
            return std::make_unique<Stepper<Physics>>(std::move(spec), count, autoreset);
        };
}

using Maker = std::function<std::unique_ptr<VectorEnv>(int64_t, Autoreset, int64_t)>;

const std::map<std::string, Maker> &makers() {
    static const std::map<std::string, Maker> all{
        {"CartPole-v1", maker<CartPoles<CartPole>>([] { return cart_pole_spec(false); })},
        {"Acrobot-v1", maker<Acrobot>(acrobot_spec)},
        {"MountainCar-v0", maker<MountainCar>([] { return mountain_car_spec(false); })},
        {"MountainCarContinuous-v0", maker<MountainCarContinuous>([] { return mountain_car_spec(true); })},
        {"Pendulum-v1", maker<Pendulum>(pendulum_spec)},
        {"ContinuousCartPole-v0", maker<CartPoles<ContinuousCartPole>>([] { return cart_pole_spec(true); })},
    };
    return all;
}

} // namespace

int64_t VectorEnv::first_invalid(const Actions &actions) const {
    const int64_t numbers = count() * spec().action_width;
    if (spec().discrete()) {
        for (int64_t i = 0; i < numbers; ++i)
            if (uint64_t(actions.discrete[i]) >= uint64_t(spec().action_count))
                return i;
    } else {
        for (int64_t i = 0; i < numbers; ++i)
            if (std::isnan(actions.continuous[i]))
                return i;
    }
    return -1;
}

std::unique_ptr<VectorEnv> make_classic(const std::string &id, int64_t count, Autoreset autoreset,
                                        int64_t episode_steps) {
    const auto found = makers().find(id);
    return found == makers().end() ? nullptr : found->second(count, autoreset, episode_steps);
}

std::vector<std::string> classic_ids() {
    std::vector<std::string> ids;
    for (const auto &[id, maker] : makers())
        ids.push_back(id);
    return ids;
}

} // namespace placerl::environments
