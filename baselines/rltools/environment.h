// An environment that costs next to nothing: observations and rewards are random, so that what is timed is learning.
#pragma once

#include <rl_tools/rl/environments/environments.h>

template <typename T_T, typename T_TI>
struct RandomEnvironment : rl_tools::rl::environments::Environment<T_T, T_TI> {
    using T = T_T;
    using TI = T_TI;
    struct Parameters {};
    struct State {
        static constexpr TI DIM = OBSERVATION_SIZE;
        T observation[OBSERVATION_SIZE];
        T reward;
    };
    struct Observation {
        static constexpr TI DIM = OBSERVATION_SIZE;
    };
    using ObservationPrivileged = Observation;
    static constexpr TI ACTION_DIM = ACTION_SIZE;
    static constexpr TI EPISODE_STEP_LIMIT = 1000;
};

namespace rl_tools {
template <typename DEVICE, typename T, typename TI>
void malloc(DEVICE &, RandomEnvironment<T, TI> &) {}
template <typename DEVICE, typename T, typename TI>
void free(DEVICE &, RandomEnvironment<T, TI> &) {}
template <typename DEVICE, typename T, typename TI>
void init(DEVICE &, RandomEnvironment<T, TI> &) {}
template <typename DEVICE, typename T, typename TI>
void initial_parameters(DEVICE &, const RandomEnvironment<T, TI> &,
                        typename RandomEnvironment<T, TI>::Parameters &) {}
template <typename DEVICE, typename T, typename TI, typename RNG>
void sample_initial_parameters(DEVICE &, const RandomEnvironment<T, TI> &,
                               typename RandomEnvironment<T, TI>::Parameters &, RNG &) {}
template <typename DEVICE, typename T, typename TI>
void initial_state(DEVICE &, const RandomEnvironment<T, TI> &,
                   const typename RandomEnvironment<T, TI>::Parameters &,
                   typename RandomEnvironment<T, TI>::State &state) {
    state = {};
}
template <typename DEVICE, typename T, typename TI, typename RNG>
void sample_initial_state(DEVICE &device, const RandomEnvironment<T, TI> &,
                          const typename RandomEnvironment<T, TI>::Parameters &,
                          typename RandomEnvironment<T, TI>::State &state, RNG &rng) {
    for (T &value : state.observation)
        value = random::normal_distribution::sample(device.random, T(0), T(1), rng);
    state.reward = random::normal_distribution::sample(device.random, T(0), T(1), rng);
}
template <typename DEVICE, typename T, typename TI, typename ACTION, typename RNG>
T step(DEVICE &device, const RandomEnvironment<T, TI> &environment,
       const typename RandomEnvironment<T, TI>::Parameters &parameters,
       const typename RandomEnvironment<T, TI>::State &, const Matrix<ACTION> &,
       typename RandomEnvironment<T, TI>::State &next, RNG &rng) {
    sample_initial_state(device, environment, parameters, next, rng);
    return T(0.01);
}
template <typename DEVICE, typename T, typename TI, typename ACTION, typename RNG>
T reward(DEVICE &, const RandomEnvironment<T, TI> &, const typename RandomEnvironment<T, TI>::Parameters &,
         const typename RandomEnvironment<T, TI>::State &, const Matrix<ACTION> &,
         const typename RandomEnvironment<T, TI>::State &next, RNG &) {
    return next.reward;
}
template <typename DEVICE, typename T, typename TI, typename OBSERVATION, typename RNG>
void observe(DEVICE &, const RandomEnvironment<T, TI> &,
             const typename RandomEnvironment<T, TI>::Parameters &,
             const typename RandomEnvironment<T, TI>::State &state,
             const typename RandomEnvironment<T, TI>::Observation &, Matrix<OBSERVATION> &observation, RNG &) {
    for (TI i = 0; i < OBSERVATION_SIZE; ++i)
        set(observation, 0, i, state.observation[i]);
}
template <typename DEVICE, typename T, typename TI, typename RNG>
bool terminated(DEVICE &, const RandomEnvironment<T, TI> &,
                const typename RandomEnvironment<T, TI>::Parameters &,
                const typename RandomEnvironment<T, TI>::State &, RNG &) {
    return false;
}
} // namespace rl_tools
