// mj_step and nothing else, over a recorded run of native environments: what their time is compared with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace placerl::bare_mujoco {

using Function = void (*)(const void *model, void *data);

// One simulation's MjData and arrays in it.
struct Simulation {
    void *data;
    double *qpos, *qvel, *ctrl;
};

struct Sizes {
    int positions, velocities, controls, frame_skip;
};

class BareMujoco {
  public:
    BareMujoco(Function step, Function forward, Function reset, const void *model, Sizes sizes,
               std::vector<Simulation> simulations)
        : step_(step), forward_(forward), reset_(reset), model_(model), sizes_(sizes),
          simulations_(std::move(simulations)) {}

    int64_t count() const { return int64_t(simulations_.size()); }
    int state_width() const { return sizes_.positions + sizes_.velocities; }
    const Sizes &sizes() const { return sizes_; }

    // An episode begins from a recorded state (positions, velocities).
    void begin(int64_t i, const double *state) {
        const Simulation &simulation = simulations_[i];
        reset_(model_, simulation.data);
        std::copy_n(state, sizes_.positions, simulation.qpos);
        std::copy_n(state + sizes_.positions, sizes_.velocities, simulation.qvel);
        forward_(model_, simulation.data);
    }

    // Every simulation's steps under recorded actions (steps, N, controls); after one that is set in `over`
    // (steps, N) the next episode begins, from the next row of `starts`, whose number so far is returned.
    int64_t run(const float *actions, const bool *over, const double *starts, int64_t steps) {
        int64_t begun = 0;
        for (int64_t t = 0; t < steps; ++t)
            for (int64_t i = 0; i < count(); ++i, actions += sizes_.controls, ++over) {
                const Simulation &simulation = simulations_[i];
                for (int k = 0; k < sizes_.controls; ++k)
                    simulation.ctrl[k] = actions[k];
                for (int k = 0; k < sizes_.frame_skip; ++k)
                    step_(model_, simulation.data);
                if (*over)
                    begin(i, starts + begun++ * state_width());
            }
        return begun;
    }

  private:
    Function step_, forward_, reset_;
    const void *model_;
    Sizes sizes_;
    std::vector<Simulation> simulations_;
};

} // namespace placerl::bare_mujoco
