// Environments that step together: N of one kind, in one call, without Python.
//
// An object belongs to one thread at a time (an actor's); two objects share nothing that changes. `reset` and
// `step` allocate nothing, but for LunarLander's. The trajectories are those of Gymnasium's environment of
// the same id, bit for bit, from the same seeds and actions: each environment has NumPy's PCG64, seeded as
// Gymnasium seeds it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace placerl::environments {

// When an environment whose episode is over begins the next one: Gymnasium's modes of the same names.
enum class Autoreset {
    next_step, // the next step ignores its action, begins an episode and gives a reward of 0
    same_step, // at once: `observations` has the new episode's first, `final_observations` the old one's last
    disabled   // never; the caller resets it by a mask before it steps again
};

// A number or several that `info` has under one name.
struct InfoField {
    std::string name;
    int width = 1;
    bool float32 = false;  // Gymnasium's is a float32
    bool at_reset = false; // a reset gives it too
};

// What one environment of a vector is; the widths are counts of numbers in a row.
struct Spec {
    std::string id; // Gymnasium's
    int observation_width = 0;
    bool float64 = false;      // Gymnasium's observations are float64 (MuJoCo), otherwise float32
    int64_t action_count = 0;  // of discrete actions, 0 if they are continuous
    int action_width = 1;      // 1 if discrete
    int64_t episode_steps = 0; // truncates here; 0 for never
    std::vector<float> action_low, action_high;           // (action_width,), empty if discrete
    std::vector<float> observation_low, observation_high; // (observation_width,)
    std::vector<InfoField> info;                          // Gymnasium's `info`, in the order of an info row

    bool discrete() const { return action_count > 0; }
    int info_width() const {
        int width = 0;
        for (const InfoField &field : info)
            width += field.width;
        return width;
    }
};

// Actions of all environments, N rows of `action_width`: of the two, the one that the kind of action says.
// A continuous action outside its bounds is treated as Gymnasium's environment treats it (clipped, mostly).
struct Actions {
    const int64_t *discrete = nullptr;
    const float *continuous = nullptr;
};

// Where a step writes: the caller's contiguous arrays, N rows each. Those that may be null are not written
// then. Number is float or double: Gymnasium's observations in that type.
template <typename Number>
struct Outputs {
    Number *observations; // (N, observation_width)
    double *rewards;      // (N,)
    bool *terminated;     // (N,)
    bool *truncated;      // (N,)
    Number *final_observations =
        nullptr;                        // (N, observation_width), only rows whose episode is over are written
    double *episode_returns = nullptr;  // (N,) sum of the episode's rewards, this step's included
    int64_t *episode_lengths = nullptr; // (N,) steps of the episode, this one included
    double *info = nullptr;             // (N, info_width), about this step, or after a reset
    double *final_info = nullptr;       // (N, info_width), same_step: about an episode's last step
};

class VectorEnv {
  public:
    virtual ~VectorEnv() = default;

    virtual const Spec &spec() const = 0;
    virtual int64_t count() const = 0;
    virtual Autoreset autoreset() const = 0;

    // Begins an episode in every environment, or in those whose `mask` (N,) is set: of these alone the rows
    // are written. `seeds` (N,) seed the generators as Gymnasium's reset(seed=...) does; null goes on with
    // them.
    virtual void reset(const uint64_t *seeds, const bool *mask, float *observations,
                       double *info = nullptr) = 0;
    virtual void reset(const uint64_t *seeds, const bool *mask, double *observations,
                       double *info = nullptr) = 0;

    // One step of every environment. `reset` has been called, discrete actions are in [0, action_count) and
    // none is NaN (`first_invalid`).
    virtual void step(const Actions &actions, const Outputs<float> &outputs) = 0;
    virtual void step(const Actions &actions, const Outputs<double> &outputs) = 0;

    // Whether the last step of an environment ended its episode and no reset has followed, (N,).
    virtual const bool *over() const = 0;

    // The first number of `actions` that is not allowed, as an index into N * action_width, or -1.
    int64_t first_invalid(const Actions &actions) const;

    // Seeds every environment i with seed + i, as Gymnasium's vector environments do, and resets it.
    template <typename Number>
    void reset_all(uint64_t seed, Number *observations) {
        std::vector<uint64_t> seeds(count());
        for (int64_t i = 0; i < count(); ++i)
            seeds[i] = seed + uint64_t(i);
        reset(seeds.data(), nullptr, observations);
    }
};

// Classic control by Gymnasium's id, or null if there is none of that name; LunarLander is in
// lunar_lander.hpp, MuJoCo's are in mujoco.hpp. `episode_steps` replaces Gymnasium's time limit if it is not
// negative; 0 is without limit.
std::unique_ptr<VectorEnv> make_classic(const std::string &id, int64_t count, Autoreset autoreset,
                                        int64_t episode_steps = -1);
std::vector<std::string> classic_ids();

} // namespace placerl::environments
