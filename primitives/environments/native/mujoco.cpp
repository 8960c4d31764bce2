#include "environments/native/mujoco.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "environments/native/mujoco_tasks.hpp"
#include "environments/native/pairwise_sum.hpp"
#include "environments/native/stepper.hpp"

namespace placerl::environments {
namespace {

// What a step has found out about one environment.
struct Parts {
    double velocity_x, velocity_y, forward, control, contact, healthy;
};

class MujocoPhysics {
  public:
    using Action = float;

    MujocoPhysics(int64_t count, const MujocoTask &task, const MujocoLibrary &library,
                  const MujocoModel &model, std::vector<MujocoData> simulations)
        : task_(task), library_(library), model_(model), simulations_(std::move(simulations)), parts_(count),
          step_s_(model.timestep_s * task.frame_skip), squares_(size_t(model.bodies) * 6) {}

    void reset(int64_t i, Pcg64 &random) {
        const MujocoData &simulation = simulations_[i];
        library_.reset_data(model_.model, simulation.data);
        const double low = -task_.noise, range = task_.noise - low;
        for (int k = 0; k < model_.positions; ++k)
            simulation.qpos[k] = model_.qpos[k] + random.uniform(low, range);
        for (int k = 0; k < model_.velocities; ++k)
            simulation.qvel[k] = model_.qvel[k] + (task_.normal_velocities ? task_.noise * random.normal()
                                                                           : random.uniform(low, range));
        library_.forward(model_.model, simulation.data);
        parts_[i] = {};
    }

    bool step(int64_t i, const float *action, double &reward) {
        const MujocoData &simulation = simulations_[i];
        double before[2], after[2];
        position(simulation, before);
        for (int k = 0; k < model_.controls; ++k)
            simulation.ctrl[k] = action[k];
        for (int k = 0; k < task_.frame_skip; ++k)
            library_.step(model_.model, simulation.data);
        // Where Gymnasium calls it too but nothing reads its results, it is left out.
        if (task_.extra != Extra::none)
            library_.rne_post_constraint(model_.model, simulation.data);
        position(simulation, after);
        Parts &parts = parts_[i];
        parts.velocity_x = (after[0] - before[0]) / step_s_;
        parts.velocity_y = (after[1] - before[1]) / step_s_;
        parts.forward = task_.forward_weight * parts.velocity_x;
        parts.control = control_cost(simulation, action);
        parts.contact = task_.contact_weight > 0 ? contact_cost(simulation) : 0;
        const bool healthy = task_.healthy_reward == 0 || is_healthy(simulation);
        parts.healthy = healthy ? task_.healthy_reward : 0;
        reward = (parts.forward + parts.healthy) - (parts.control + parts.contact);
        return !healthy;
    }

    template <typename Number>
    void observe(int64_t i, Number *row) const {
        const MujocoData &simulation = simulations_[i];
        for (int k = task_.skipped; k < model_.positions; ++k)
            *row++ = Number(simulation.qpos[k]);
        if (task_.clips_velocities)
            row = copy(simulation.qvel, model_.velocities, row, -10, 10);
        else
            row = copy(simulation.qvel, model_.velocities, row);
        if (task_.extra == Extra::all) {
            row = copy(simulation.cinert + 10, (model_.bodies - 1) * 10, row);
            row = copy(simulation.cvel + 6, (model_.bodies - 1) * 6, row);
            row = copy(simulation.qfrc_actuator + 6, model_.velocities - 6, row);
            copy(simulation.cfrc_ext + 6, (model_.bodies - 1) * 6, row);
        } else if (task_.extra == Extra::contact_forces) {
            copy(simulation.cfrc_ext + 6, (model_.bodies - 1) * 6, row, task_.contact_low,
                 task_.contact_high);
        }
    }

    // In the order of `fields`.
    void info(int64_t i, double *row, bool after_reset) const {
        const MujocoData &simulation = simulations_[i];
        const Parts &parts = parts_[i];
        *row++ = simulation.qpos[0];
        if (task_.progress == Progress::joint_x) {
            if (task_.healthy_reward > 0)
                *row++ = simulation.qpos[1] - model_.qpos[1];
        } else {
            *row++ = simulation.qpos[1];
            *row++ =
                std::sqrt(simulation.qpos[0] * simulation.qpos[0] + simulation.qpos[1] * simulation.qpos[1]);
            if (task_.extra == Extra::all) {
                row = std::copy_n(simulation.ten_length, model_.tendons, row);
                row = std::copy_n(simulation.ten_velocity, model_.tendons, row);
            }
        }
        if (after_reset)
            return;
        *row++ = parts.velocity_x;
        if (task_.progress != Progress::joint_x)
            *row++ = parts.velocity_y;
        *row++ = parts.forward;
        *row++ = -parts.control;
        if (task_.contact_weight > 0)
            *row++ = -parts.contact;
        if (task_.healthy_reward > 0)
            *row++ = parts.healthy;
    }

    static std::vector<InfoField> fields(const MujocoTask &task, const MujocoModel &model) {
        const bool plane = task.progress != Progress::joint_x;
        std::vector<InfoField> fields{{.name = "x_position", .at_reset = true}};
        if (plane) {
            fields.push_back({.name = "y_position", .at_reset = true});
            fields.push_back({.name = "distance_from_origin", .at_reset = true});
            if (task.extra == Extra::all) {
                fields.push_back({.name = "tendon_length", .width = model.tendons, .at_reset = true});
                fields.push_back({.name = "tendon_velocity", .width = model.tendons, .at_reset = true});
            }
        } else if (task.healthy_reward > 0) {
            fields.push_back({.name = "z_distance_from_origin", .at_reset = true});
        }
        fields.push_back({.name = "x_velocity"});
        if (plane)
            fields.push_back({.name = "y_velocity"});
        fields.push_back({.name = "reward_forward"});
        fields.push_back({.name = "reward_ctrl", .float32 = !task.measures_controls});
        if (task.contact_weight > 0)
            fields.push_back({.name = "reward_contact"});
        if (task.healthy_reward > 0)
            fields.push_back({.name = "reward_survive"});
        return fields;
    }

    static int observation_width(const MujocoTask &task, const MujocoModel &model) {
        int width = model.positions + model.velocities - task.skipped;
        if (task.extra != Extra::none)
            width += (model.bodies - 1) * 6;
        if (task.extra == Extra::all)
            width += (model.bodies - 1) * 16 + model.velocities - 6;
        return width;
    }

  private:
    template <typename Number>
    static Number *copy(const double *from, int count, Number *row) {
        for (int k = 0; k < count; ++k)
            row[k] = Number(from[k]);
        return row + count;
    }
    template <typename Number>
    static Number *copy(const double *from, int count, Number *row, double low, double high) {
        for (int k = 0; k < count; ++k)
            row[k] = Number(clipped(from[k], low, high));
        return row + count;
    }
    static double clipped(double value, double low, double high) {
        return std::min(std::max(value, low), high);
    }

    void position(const MujocoData &simulation, double *xy) const {
        if (task_.progress == Progress::body_xy) {
            xy[0] = simulation.xpos[3]; // the torso is body 1
            xy[1] = simulation.xpos[4];
        } else if (task_.progress == Progress::centre_of_mass_xy) {
            xy[0] = xy[1] = 0;
            for (int body = 0; body < model_.bodies; ++body) {
                xy[0] += model_.body_mass[body] * simulation.xipos[3 * body];
                xy[1] += model_.body_mass[body] * simulation.xipos[3 * body + 1];
            }
            xy[0] /= model_.total_mass;
            xy[1] /= model_.total_mass;
        } else {
            xy[0] = simulation.qpos[0];
            xy[1] = simulation.qpos[1];
        }
    }

    double control_cost(const MujocoData &simulation, const float *action) {
        if (task_.measures_controls) {
            for (int k = 0; k < model_.controls; ++k)
                squares_[k] = simulation.ctrl[k] * simulation.ctrl[k];
            return task_.control_weight * pairwise_sum(squares_.data(), model_.controls);
        }
        float squares[max_controls];
        for (int k = 0; k < model_.controls; ++k)
            squares[k] = action[k] * action[k];
        return float(task_.control_weight) * pairwise_sum(squares, model_.controls);
    }

    double contact_cost(const MujocoData &simulation) {
        const int numbers = model_.bodies * 6;
        for (int k = 0; k < numbers; ++k) {
            const double force = task_.clips_contact_cost
                                     ? simulation.cfrc_ext[k]
                                     : clipped(simulation.cfrc_ext[k], task_.contact_low, task_.contact_high);
            squares_[k] = force * force;
        }
        const double cost = task_.contact_weight * pairwise_sum(squares_.data(), numbers);
        return task_.clips_contact_cost ? clipped(cost, task_.contact_low, task_.contact_high) : cost;
    }

    bool is_healthy(const MujocoData &simulation) const {
        const double height = simulation.qpos[task_.height];
        const bool in_range = task_.heights_included
                                  ? task_.height_low <= height && height <= task_.height_high
                                  : task_.height_low < height && height < task_.height_high;
        if (!in_range)
            return false;
        if (task_.angle_max < unlimited && !(std::abs(simulation.qpos[2]) < task_.angle_max))
            return false;
        if (task_.bounded_from < 0)
            return true;
        for (int k = task_.bounded_from; k < model_.positions; ++k)
            if (!(std::abs(simulation.qpos[k]) < task_.bound))
                return false;
        for (int k = 0; k < model_.velocities; ++k)
            if (!(std::abs(simulation.qvel[k]) < task_.bound))
                return false;
        return true;
    }

  public:
    static constexpr int max_controls = 32;

  private:
    const MujocoTask &task_;
    MujocoLibrary library_;
    MujocoModel model_;
    std::vector<MujocoData> simulations_;
    std::vector<Parts> parts_;
    double step_s_;
    std::vector<double> squares_;
};

} // namespace

std::vector<MujocoFile> mujoco_files() {
    std::vector<MujocoFile> files;
    for (const MujocoTask &task : mujoco_tasks)
        files.push_back({task.id, task.file, task.frame_skip});
    return files;
}

std::unique_ptr<VectorEnv> make_mujoco(const std::string &id, Autoreset autoreset, int64_t episode_steps,
                                       const MujocoLibrary &library, const MujocoModel &model,
                                       std::vector<MujocoData> simulations) {
    const MujocoTask *task = mujoco_task(id);
    if (!task)
        throw std::invalid_argument("id: found " + id + "; allowed: one of mujoco_files()");
    const bool fits =
        model.positions >= 3 && model.velocities > (task->extra == Extra::all ? 6 : 0) && model.bodies >= 2 &&
        model.controls >= 1 && model.controls <= MujocoPhysics::max_controls &&
        model.bodies * 6 >= model.controls && int(model.qpos.size()) == model.positions &&
        int(model.qvel.size()) == model.velocities && int(model.control_low.size()) == model.controls &&
        int(model.control_high.size()) == model.controls && int(model.body_mass.size()) == model.bodies;
    if (!fits || simulations.empty())
        throw std::invalid_argument("model: not one that " + id + " can have");
    Spec spec;
    spec.id = id;
    spec.observation_width = MujocoPhysics::observation_width(*task, model);
    spec.float64 = true;
    spec.action_width = model.controls;
    spec.action_low = model.control_low;
    spec.action_high = model.control_high;
    spec.observation_high.assign(spec.observation_width, std::numeric_limits<float>::infinity());
    spec.observation_low.assign(spec.observation_width, -std::numeric_limits<float>::infinity());
    spec.episode_steps = episode_steps < 0 ? 1000 : episode_steps;
    spec.info = MujocoPhysics::fields(*task, model);
    const int64_t count = int64_t(simulations.size());
    return std::make_unique<Stepper<MujocoPhysics>>(std::move(spec), count, autoreset, *task, library, model,
                                                    std::move(simulations));
}

} // namespace placerl::environments
