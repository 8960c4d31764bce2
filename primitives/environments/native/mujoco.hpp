// MuJoCo's Hopper, HalfCheetah, Walker2d, Ant, Humanoid and Swimmer (Gymnasium's v5): one class and a table.
//
// Nothing is compiled against MuJoCo: its functions come as addresses in the shared library that the `mujoco`
// package has loaded, and the arrays of a simulation as addresses in the package's own MjData, which knows
// its layout. So it works with every version that has these functions, with that version's trajectories.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "environments/native/vector_env.hpp"

namespace placerl::environments {

struct MujocoLibrary {
    void (*step)(const void *model, void *data);
    void (*forward)(const void *model, void *data);
    void (*reset_data)(const void *model, void *data);
    void (*rne_post_constraint)(const void *model, void *data);
};

// An MjData and arrays in it, in MuJoCo's shapes, which stay where they are as long as it lives.
struct MujocoData {
    void *data;
    double *qpos, *qvel, *ctrl;
    const double *xpos, *xipos, *cinert, *cvel, *qfrc_actuator, *cfrc_ext, *ten_length, *ten_velocity;
};

struct MujocoModel {
    const void *model;
    int positions, velocities, controls, bodies, tendons; // nq, nv, nu, nbody, ntendon
    double timestep_s;
    std::vector<double> qpos, qvel;               // where every episode begins, but for noise
    std::vector<float> control_low, control_high; // (controls,)
    std::vector<double> body_mass;                // (bodies,)
    double total_mass;                            // their sum, as NumPy adds it
};

// What an environment of that id simulates, for who loads the model; null if there is none of that id.
struct MujocoFile {
    const char *id, *file;
    int frame_skip;
};
std::vector<MujocoFile> mujoco_files();

// `simulations` has one MjData for each environment; they, the model and the library outlive the
// environments. Throws std::invalid_argument if the model has not the dimensions that the id needs.
std::unique_ptr<VectorEnv> make_mujoco(const std::string &id, Autoreset autoreset, int64_t episode_steps,
                                       const MujocoLibrary &library, const MujocoModel &model,
                                       std::vector<MujocoData> simulations);

} // namespace placerl::environments
