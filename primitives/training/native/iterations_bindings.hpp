// Python's view of Iterations; `primitives.training.on_policy` makes and checks what it passes.
#pragma once

#include "native/numpy.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "environments/native/bindings.hpp"
#include "training/native/blocks.hpp"
#include "training/native/iterations.hpp"

namespace placerl::training {
namespace {

// (program, column of each input, output of the KL divergence or -1)
using SampleStepArguments = std::tuple<int, std::vector<int>, int>;

class OnPolicy {
  public:
    // actor: (executor, programs `ActingPrograms`, its weights); learner: (executor, its weights). settings:
    // (T, K, M, gamma, lambda, stop_kl).
    OnPolicy(nb::object environments, nb::object first,
             std::tuple<nb::object, std::array<int, 3>, nb::list> actor,
             std::tuple<nb::object, nb::list> learner, const std::vector<SampleStepArguments> &steps,
             std::tuple<int64_t, int64_t, int64_t, double, double, double> settings)
        : kept_(nb::make_tuple(environments, std::get<0>(actor), std::get<0>(learner))),
          trainee_(nb::cast<learner::Executor &>(std::get<0>(learner))) {
        auto &envs = nb::cast<environments::VectorEnv &>(environments);
        const auto &[length, epochs, batch_size, gamma, gae_lambda, stop_kl] = settings;
        const auto &[acting, programs, acting_weights] = actor;
        const nb::list &weights = std::get<1>(learner);
        PyArrayObject *rows = numpy::vector_of(first, NPY_FLOAT32);
        if (!rows || PyArray_SIZE(rows) != envs.count() * envs.spec().observation_width)
            throw nb::type_error("first: allowed: a float32 vector of the environments' observations");
        std::vector<SampleStep> kinds;
        for (const auto &[program, inputs, kl] : steps) {
            kinds.push_back({program, {}, kl});
            for (const int column : inputs)
                kinds.back().inputs.push_back(static_cast<SampleColumn>(column));
        }
        iterations_ = std::make_unique<Iterations>(
            Rollout(envs, numpy::data<float>(rows), length), nb::cast<learner::Executor &>(acting),
            ActingPrograms{programs[0], programs[1], programs[2]}, blocks_of(acting_weights), trainee_,
            std::move(kinds), blocks_of(weights),
            IterationSettings{epochs, batch_size, stop_kl, Advantages{gamma, gae_lambda}});
    }

    // draws: float32 vector of (n, T, N, ...) numbers; orders: int64 vector of (n, K, T N).
    void run(int64_t iterations, nb::handle draws, nb::handle orders) {
        Iterations &made = *iterations_;
        const int64_t samples = made.rollout().samples();
        const int64_t drawn = samples * made.draws(), ordered = made.epochs() * samples;
        PyArrayObject *numbers = numpy::vector_of(draws, NPY_FLOAT32);
        PyArrayObject *indices = numpy::vector_of(orders, NPY_INT64);
        if (!numbers || PyArray_SIZE(numbers) != iterations * drawn)
            throw nb::type_error("draws: allowed: a float32 vector of (n, T, N, ...) numbers");
        if (!indices || PyArray_SIZE(indices) != iterations * ordered ||
            !numpy::in_range(numpy::data<int64_t>(indices), PyArray_SIZE(indices), samples))
            throw nb::type_error("orders: allowed: an int64 vector of (n, K, T N) indices of samples");
        const auto *draw = numpy::data<const float>(numbers);
        const auto *order = numpy::data<const int64_t>(indices);
        const learner::Executor::Claim claim(trainee_);
        nb::gil_scoped_release free;
        for (int64_t i = 0; i < iterations; ++i)
            made.run(draw + i * drawn, order + i * ordered);
    }

    nb::list take_episodes() {
        nb::list all;
        for (const Episode &episode : iterations_->take_episodes())
            all.append(nb::make_tuple(episode.environment_step, episode.total_reward));
        return all;
    }

    nb::dict spent_s() const {
        const Iterations::Spent &spent = iterations_->spent();
        nb::dict terms;
        terms["environment"] = spent.environment;
        terms["infer"] = spent.infer;
        terms["prepare"] = spent.prepare;
        terms["learner"] = spent.learner;
        return terms;
    }

    // A copy of a column of the last iteration's samples, as a vector.
    nb::object column(int which) const {
        const Iterations &made = *iterations_;
        const auto column = static_cast<SampleColumn>(which);
        const bool index = column == SampleColumn::action && made.rollout().discrete();
        const size_t bytes = size_t(made.rollout().samples()) * made.row_bytes(column);
        nb::object array = numpy::new_vector(npy_intp(bytes / (index ? sizeof(int64_t) : sizeof(float))),
                                             index ? NPY_INT64 : NPY_FLOAT32);
        std::memcpy(numpy::data<std::byte>(array), made.column(column), bytes);
        return array;
    }

    const Iterations &iterations() const { return *iterations_; }

  private:
    nb::object kept_; // the iterations work on what is inside
    learner::Executor &trainee_;
    std::unique_ptr<Iterations> iterations_;
};

void bind_iterations(nb::module_ &m) {
    nb::class_<OnPolicy>(m, "OnPolicy")
        .def(nb::init<nb::object, nb::object, std::tuple<nb::object, std::array<int, 3>, nb::list>,
                      std::tuple<nb::object, nb::list>, const std::vector<SampleStepArguments> &,
                      std::tuple<int64_t, int64_t, int64_t, double, double, double>>())
        .def("run", &OnPolicy::run)
        .def("take_episodes", &OnPolicy::take_episodes)
        .def("spent_s", &OnPolicy::spent_s)
        .def("column", &OnPolicy::column)
        .def_prop_ro("draws", [](const OnPolicy &o) { return o.iterations().draws(); })
        .def_prop_ro("last_outputs", [](const OnPolicy &o) { return o.iterations().last_outputs(); })
        .def_prop_ro("last_kind", [](const OnPolicy &o) { return o.iterations().last_kind(); })
        .def_prop_ro("environment_steps",
                     [](const OnPolicy &o) { return o.iterations().rollout().environment_steps(); })
        .def_prop_ro("gradient_steps", [](const OnPolicy &o) { return o.iterations().gradient_steps(); });
}

} // namespace
} // namespace placerl::training
