// The table of MuJoCo's environments: Gymnasium 1.x, gymnasium/envs/mujoco/*_v5.py, with their default
// arguments.
#pragma once

#include <limits>
#include <string>

namespace placerl::environments {

constexpr double unlimited = std::numeric_limits<double>::infinity();

// Whose position says how far it has come, in x or in x and y.
enum class Progress { joint_x, joint_xy, body_xy, centre_of_mass_xy };

// Numbers that an observation has after positions and velocities.
enum class Extra { none, contact_forces, all };

struct MujocoTask {
    const char *id, *file;
    int frame_skip;
    int skipped; // positions that the observation leaves out
    Progress progress;
    double forward_weight = 1;
    double control_weight;
    bool measures_controls = false; // squares MjData's controls in doubles, or the action in floats
    double noise;                   // of positions and velocities at a reset
    bool normal_velocities = false; // or uniform ones
    bool clips_velocities = false;  // in observations, to [-10, 10]
    Extra extra = Extra::none;
    double healthy_reward = 0; // 0 if an episode never terminates, and nothing below is looked at
    int height = 0;            // which position is the height
    double height_low = 0, height_high = unlimited;
    bool heights_included = false; // whether the bounds are healthy
    double angle_max = unlimited;  // of position 2
    int bounded_from = -1;         // which number of the state is the first that `bound` limits, if any
    double bound = unlimited;      // of every number of the state
    double contact_weight = 0, contact_low = -unlimited, contact_high = unlimited;
    bool clips_contact_cost = false; // the bounds are the cost's, or each force's
};

constexpr MujocoTask mujoco_tasks[] = {
    {.id = "Ant-v5",
     .file = "ant.xml",
     .frame_skip = 5,
     .skipped = 2,
     .progress = Progress::body_xy,
     .control_weight = 0.5,
     .noise = 0.1,
     .normal_velocities = true,
     .extra = Extra::contact_forces,
     .healthy_reward = 1,
     .height = 2,
     .height_low = 0.2,
     .height_high = 1.0,
     .heights_included = true,
     .bounded_from = 0,
     .contact_weight = 5e-4,
     .contact_low = -1,
     .contact_high = 1},
    {.id = "HalfCheetah-v5",
     .file = "half_cheetah.xml",
     .frame_skip = 5,
     .skipped = 1,
     .progress = Progress::joint_x,
     .control_weight = 0.1,
     .noise = 0.1,
     .normal_velocities = true},
    {.id = "Hopper-v5",
     .file = "hopper.xml",
     .frame_skip = 4,
     .skipped = 1,
     .progress = Progress::joint_x,
     .control_weight = 1e-3,
     .noise = 5e-3,
     .clips_velocities = true,
     .healthy_reward = 1,
     .height = 1,
     .height_low = 0.7,
     .angle_max = 0.2,
     .bounded_from = 2,
     .bound = 100},
    {.id = "Humanoid-v5",
     .file = "humanoid.xml",
     .frame_skip = 5,
     .skipped = 2,
     .progress = Progress::centre_of_mass_xy,
     .forward_weight = 1.25,
     .control_weight = 0.1,
     .measures_controls = true,
     .noise = 1e-2,
     .extra = Extra::all,
     .healthy_reward = 5,
     .height = 2,
     .height_low = 1,
     .height_high = 2,
     .contact_weight = 5e-7,
     .contact_high = 10,
     .clips_contact_cost = true},
    {.id = "Swimmer-v5",
     .file = "swimmer.xml",
     .frame_skip = 4,
     .skipped = 2,
     .progress = Progress::joint_xy,
     .control_weight = 1e-4,
     .noise = 0.1},
    {.id = "Walker2d-v5",
     .file = "walker2d_v5.xml",
     .frame_skip = 4,
     .skipped = 1,
     .progress = Progress::joint_x,
     .control_weight = 1e-3,
     .noise = 5e-3,
     .clips_velocities = true,
     .healthy_reward = 1,
     .height = 1,
     .height_low = 0.8,
     .height_high = 2,
     .angle_max = 1},
};

inline const MujocoTask *mujoco_task(const std::string &id) {
    for (const MujocoTask &task : mujoco_tasks)
        if (id == task.id)
            return &task;
    return nullptr;
}

} // namespace placerl::environments
