// Python's view of VectorEnv. The Python class (primitives/environments/vector.py) checks a user's values;
// here only what would write outside an array is refused.
#include "native/numpy.hpp"

#include <numpy/ufuncobject.h>

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "environments/native/bindings.hpp"
#include "environments/native/lunar_lander.hpp"
#include "environments/native/mujoco.hpp"
#include "environments/native/trigonometry.hpp"
#include "environments/native/vector_env.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace placerl::environments {
namespace {

using Any = nb::ndarray<nb::c_contig, nb::device::cpu>;
template <typename Number>
using Array = nb::ndarray<Number, nb::c_contig, nb::device::cpu>;

void check_size(const char *name, size_t found, size_t expected) {
    if (found != expected)
        throw nb::value_error((std::string(name) + ": found " + std::to_string(found) +
                               " numbers; allowed: " + std::to_string(expected))
                                  .c_str());
}

template <typename Number>
Number *data(const char *name, const std::optional<Array<Number>> &array, size_t expected) {
    if (!array)
        return nullptr;
    check_size(name, array->size(), expected);
    return array->data();
}

template <typename Call>
void in_their_type(const char *name, const Any &array, Call call) {
    if (array.dtype() == nb::dtype<float>())
        call(static_cast<float *>(array.data()));
    else if (array.dtype() == nb::dtype<double>())
        call(static_cast<double *>(array.data()));
    else
        throw nb::type_error((std::string(name) + ": allowed: float32 or float64").c_str());
}

// A step's arrays, found once and kept alive.
class Buffers {
  public:
    Buffers(const VectorEnv &env, Any observations, Array<double> rewards, Array<bool> terminated,
            Array<bool> truncated, std::optional<Any> final_observations,
            std::optional<Array<double>> episode_returns, std::optional<Array<int64_t>> episode_lengths,
            std::optional<Array<double>> info, std::optional<Array<double>> final_info)
        : kept_{nb::cast(observations),       nb::cast(rewards),
                nb::cast(terminated),         nb::cast(truncated),
                nb::cast(final_observations), nb::cast(episode_returns),
                nb::cast(episode_lengths),    nb::cast(info),
                nb::cast(final_info)},
          is_float_(observations.dtype() == nb::dtype<float>()) {
        const size_t count = size_t(env.count()), rows = count * env.spec().observation_width;
        const size_t infos = count * size_t(env.spec().info_width());
        check_size("observations", observations.size(), rows);
        check_size("rewards", rewards.size(), count);
        check_size("terminated", terminated.size(), count);
        check_size("truncated", truncated.size(), count);
        if (final_observations) {
            check_size("final_observations", final_observations->size(), rows);
            if (final_observations->dtype() != observations.dtype())
                throw nb::type_error("final_observations: allowed: the type of observations");
        }
        in_their_type("observations", observations, [&](auto *numbers) {
            using Number = std::remove_pointer_t<decltype(numbers)>;
            Outputs<Number> outputs{numbers, rewards.data(), terminated.data(), truncated.data()};
            outputs.final_observations =
                final_observations ? static_cast<Number *>(final_observations->data()) : nullptr;
            outputs.episode_returns = environments::data("episode_returns", episode_returns, count);
            outputs.episode_lengths = environments::data("episode_lengths", episode_lengths, count);
            outputs.info = environments::data("info", info, infos);
            outputs.final_info = environments::data("final_info", final_info, infos);
            if constexpr (std::is_same_v<Number, float>)
                floats_ = outputs;
            else
                doubles_ = outputs;
        });
        count_ = env.count();
        width_ = env.spec().observation_width;
        info_ = size_t(env.spec().info_width());
    }

    void step(VectorEnv &env, const Actions &actions) const {
        if (env.count() != count_ || env.spec().observation_width != width_ ||
            size_t(env.spec().info_width()) != info_)
            throw nb::value_error("buffers: made for another environment");
        nb::gil_scoped_release free;
        if (is_float_)
            env.step(actions, floats_);
        else
            env.step(actions, doubles_);
    }

  private:
    std::vector<nb::object> kept_;
    Outputs<float> floats_{};
    Outputs<double> doubles_{};
    bool is_float_;
    int64_t count_ = 0;
    int width_ = 0;
    size_t info_ = 0;
};

void reset(VectorEnv &env, std::optional<Array<const uint64_t>> seeds, std::optional<Array<const bool>> mask,
           Any observations, std::optional<Array<double>> info) {
    const size_t count = size_t(env.count());
    check_size("observations", observations.size(), count * env.spec().observation_width);
    const uint64_t *seed = data("seeds", seeds, count);
    const bool *which = data("mask", mask, count);
    double *numbers = data("info", info, count * size_t(env.spec().info_width()));
    in_their_type("observations", observations, [&](auto *rows) {
        nb::gil_scoped_release free;
        env.reset(seed, which, rows, numbers);
    });
}

Actions actions_of(const VectorEnv &env, const Any &actions) {
    const Spec &spec = env.spec();
    check_size("actions", actions.size(), size_t(env.count() * spec.action_width));
    if (actions.dtype() != (spec.discrete() ? nb::dtype<int64_t>() : nb::dtype<float>()))
        throw nb::type_error(spec.discrete() ? "actions: allowed: int64" : "actions: allowed: float32");
    if (spec.discrete())
        return {.discrete = static_cast<const int64_t *>(actions.data())};
    return {.continuous = static_cast<const float *>(actions.data())};
}

// The addresses that Python found, as functions and arrays. `functions` are step, forward, reset_data and
// rne_post_constraint; a simulation's `addresses` those of MujocoData, in its order.
std::unique_ptr<VectorEnv> mujoco(const std::string &id, Autoreset autoreset, int64_t episode_steps,
                                  const std::array<uintptr_t, 4> &functions, const MujocoModel &model,
                                  const std::vector<std::array<uintptr_t, 12>> &simulations) {
    using Function = void (*)(const void *, void *);
    const auto function = [&](int k) { return reinterpret_cast<Function>(functions[k]); };
    const MujocoLibrary library{function(0), function(1), function(2), function(3)};
    std::vector<MujocoData> found;
    for (const auto &addresses : simulations) {
        const auto array = [&](int k) { return reinterpret_cast<double *>(addresses[k]); };
        found.push_back({reinterpret_cast<void *>(addresses[0]), array(1), array(2), array(3), array(4),
                         array(5), array(6), array(7), array(8), array(9), array(10), array(11)});
    }
    return make_mujoco(id, autoreset, episode_steps, library, model, std::move(found));
}

Loop loop_of(const char *ufunc, int type) {
    nb::object function = nb::module_::import_("numpy").attr(ufunc);
    auto *made = reinterpret_cast<PyUFuncObject *>(function.ptr());
    for (int k = 0; k < made->ntypes; ++k)
        if (made->types[2 * k] == type && made->types[2 * k + 1] == type)
            return {reinterpret_cast<UfuncLoop>(made->functions[k]), made->data ? made->data[k] : nullptr};
    throw std::runtime_error(std::string("numpy.") + ufunc + " has no loop of the type asked for");
}

void take_numpy_loops() {
    static_assert(sizeof(npy_intp) == sizeof(intptr_t));
    use_numpy({loop_of("sin", NPY_DOUBLE), loop_of("cos", NPY_DOUBLE), loop_of("sin", NPY_FLOAT),
               loop_of("cos", NPY_FLOAT)});
}

} // namespace

void bind_environments(nb::module_ &parent) {
    numpy::import_numpy();
    take_numpy_loops();
    nb::module_ m = parent.def_submodule("environments", "Environments in C++ that step N at a time");
    nb::enum_<Autoreset>(m, "Autoreset")
        .value("next_step", Autoreset::next_step)
        .value("same_step", Autoreset::same_step)
        .value("disabled", Autoreset::disabled);
    nb::class_<VectorEnv>(m, "VectorEnv", nb::dynamic_attr())
        .def_prop_ro("id", [](const VectorEnv &env) { return env.spec().id; })
        .def_prop_ro("count", &VectorEnv::count)
        .def_prop_ro("autoreset", &VectorEnv::autoreset)
        .def_prop_ro("observation_width", [](const VectorEnv &env) { return env.spec().observation_width; })
        .def_prop_ro("float64", [](const VectorEnv &env) { return env.spec().float64; })
        .def_prop_ro("action_count", [](const VectorEnv &env) { return env.spec().action_count; })
        .def_prop_ro("action_width", [](const VectorEnv &env) { return env.spec().action_width; })
        .def_prop_ro("episode_steps", [](const VectorEnv &env) { return env.spec().episode_steps; })
        .def_prop_ro("action_low", [](const VectorEnv &env) { return env.spec().action_low; })
        .def_prop_ro("action_high", [](const VectorEnv &env) { return env.spec().action_high; })
        .def_prop_ro("observation_low", [](const VectorEnv &env) { return env.spec().observation_low; })
        .def_prop_ro("observation_high", [](const VectorEnv &env) { return env.spec().observation_high; })
        .def_prop_ro(
            "info",
            [](const VectorEnv &env) {
                nb::list fields;
                for (const InfoField &field : env.spec().info)
                    fields.append(nb::make_tuple(field.name, field.width, field.float32, field.at_reset));
                return fields;
            },
            "(name, width, whether float32, whether after a reset too) of each field of an info row.")
        .def("reset", &reset, "seeds"_a.none(), "mask"_a.none(), "observations"_a,
             "info"_a.none() = nb::none())
        .def(
            "first_invalid",
            [](const VectorEnv &env, const Any &actions) {
                return env.first_invalid(actions_of(env, actions));
            },
            "actions"_a)
        .def(
            "step",
            [](VectorEnv &env, const Any &actions, const Buffers &buffers) {
                buffers.step(env, actions_of(env, actions));
            },
            "actions"_a, "buffers"_a)
        .def("over", [](const VectorEnv &env) {
            nb::object array = numpy::new_vector(npy_intp(env.count()), NPY_BOOL);
            std::copy(env.over(), env.over() + env.count(), numpy::data<bool>(array));
            return array;
        });
    nb::class_<Buffers>(m, "Buffers")
        .def(nb::init<const VectorEnv &, Any, Array<double>, Array<bool>, Array<bool>, std::optional<Any>,
                      std::optional<Array<double>>, std::optional<Array<int64_t>>,
                      std::optional<Array<double>>, std::optional<Array<double>>>(),
             "env"_a, "observations"_a, "rewards"_a, "terminated"_a, "truncated"_a,
             "final_observations"_a.none() = nb::none(), "episode_returns"_a.none() = nb::none(),
             "episode_lengths"_a.none() = nb::none(), "info"_a.none() = nb::none(),
             "final_info"_a.none() = nb::none());
    m.def(
        "make_classic",
        [](const std::string &id, int64_t count, Autoreset autoreset, int64_t episode_steps) {
            if (count < 1)
                throw nb::value_error("count: allowed: at least 1");
            auto made = make_classic(id, count, autoreset, episode_steps);
            if (!made)
                throw nb::value_error(("id: found " + id + "; allowed: one of classic_ids()").c_str());
            return made;
        },
        "id"_a, "count"_a, "autoreset"_a = Autoreset::next_step, "episode_steps"_a = -1);
    m.def("has_box2d", &has_box2d);
    m.def(
        "make_lunar_lander",
        [](int64_t count, Autoreset autoreset, int64_t episode_steps, bool continuous, double gravity,
           bool enable_wind, double wind_power, double turbulence_power) {
            if (count < 1)
                throw nb::value_error("count: allowed: at least 1");
            return make_lunar_lander(count, autoreset, episode_steps,
                                     {continuous, gravity, enable_wind, wind_power, turbulence_power});
        },
        "count"_a, "autoreset"_a, "episode_steps"_a, "continuous"_a, "gravity"_a = -10.0,
        "enable_wind"_a = false, "wind_power"_a = 15.0, "turbulence_power"_a = 1.5,
        "Arguments after episode_steps are Gymnasium's.");
    nb::class_<MujocoModel>(m, "MujocoModel")
        .def(
            "__init__",
            [](MujocoModel *made, uintptr_t address, const std::array<int, 5> &sizes, double timestep_s,
               std::vector<double> qpos, std::vector<double> qvel, std::vector<float> control_low,
               std::vector<float> control_high, std::vector<double> body_mass, double total_mass) {
                new (made) MujocoModel{reinterpret_cast<const void *>(address),
                                       sizes[0],
                                       sizes[1],
                                       sizes[2],
                                       sizes[3],
                                       sizes[4],
                                       timestep_s,
                                       std::move(qpos),
                                       std::move(qvel),
                                       std::move(control_low),
                                       std::move(control_high),
                                       std::move(body_mass),
                                       total_mass};
            },
            "address"_a, "sizes"_a, "timestep_s"_a, "qpos"_a, "qvel"_a, "control_low"_a, "control_high"_a,
            "body_mass"_a, "total_mass"_a);
    m.def("make_mujoco", &mujoco, "id"_a, "autoreset"_a, "episode_steps"_a, "functions"_a, "model"_a,
          "simulations"_a);
    m.def("mujoco_files", [] {
        nb::dict files;
        for (const MujocoFile &file : mujoco_files())
            files[file.id] = file.file;
        return files;
    });
    m.def("mujoco_frame_skips", [] {
        nb::dict skips;
        for (const MujocoFile &file : mujoco_files())
            skips[file.id] = file.frame_skip;
        return skips;
    });
    m.def("classic_ids", &classic_ids);
    m.def(
        "sum_of_sines",
        [](const Array<const double> &angles) {
            nb::gil_scoped_release free;
            double sum = 0;
            for (size_t k = 0; k + 1 < angles.size(); k += 2)
                sum += sine(angles.data()[k]) + cosine(angles.data()[k + 1]);
            return sum;
        },
        "angles"_a, "Of the sines and cosines of angles in turns: what they cost.");
    m.def("sine_source", &source, "Whose double-precision sine is used: 'C library' or 'NumPy'.");
}

} // namespace placerl::environments
