// Python's view of Rounds; `primitives.training.rounds` makes and checks what it passes.
#pragma once

#include "native/numpy.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "environments/native/bindings.hpp"
#include "learner/fused/bound_steps.hpp"
#include "training/native/rounds.hpp"

// Of NumPy's library for C, which is part of its wheel.
extern "C" {
void random_standard_normal_fill_f(bitgen_t *, npy_intp, float *);
void random_bounded_uint64_fill(bitgen_t *, uint64_t off, uint64_t rng, npy_intp, bool use_masked,
                                uint64_t *);
}

namespace placerl::training {
namespace {

constexpr float bonus = 1e30f; // of a random action

// The random numbers of `count` actions, `width` each, as `Algorithm.draw_exploration` draws them.
void draw_exploration(bitgen_t *bits, const Exploration &exploration, int64_t environment_step, int64_t count,
                      int64_t width, float *out, std::vector<double> &uniform) {
    if (!exploration.epsilon_greedy)
        return random_standard_normal_fill_f(bits, count * width, out);
    const double epsilon = exploration.epsilon(environment_step);
    uint64_t action = 0;
    const auto below = [&] {
        random_bounded_uint64_fill(bits, 0, uint64_t(width) - 1, 1, false, &action);
        return action;
    };
    std::fill_n(out, count * width, 0.0f);
    uniform.resize(size_t(count));
    for (double &number : uniform)
        number = bits->next_double(bits->state);
    for (int64_t i = 0; i < count; ++i) // one environment draws an action only where it takes it
        if (count > 1 || uniform[0] < epsilon) {
            const uint64_t chosen = below();
            if (uniform[size_t(i)] < epsilon)
                out[i * width + int64_t(chosen)] = bonus;
        }
}

class BoundRounds : public fused::BoundSteps<Rounds> {
  public:
    // acting: (environments, first observations, (most vector steps, V, G, steps before), program, columns).
    BoundRounds(nb::object replay, nb::object executor, int64_t batch_size,
                const fused::SourceArguments &sources, const std::vector<std::size_t> &td_outputs,
                std::tuple<nb::object, nb::object, std::array<int64_t, 4>, int, std::array<size_t, 5>> acting,
                std::tuple<bool, double, double, int64_t> exploration)
        : BoundSteps(replay, executor, batch_size, sources, td_outputs, acting_of(acting)),
          environments_(std::get<0>(acting)),
          exploration_{std::get<0>(exploration), std::get<1>(exploration), std::get<2>(exploration),
                       std::get<3>(exploration)} {}

    // As `run`, with the rounds' actions; `exploring` is the generator of their random numbers.
    void run_rounds(nb::handle exploring, const std::vector<int> &programs, nb::handle rng,
                    const std::vector<double> &betas, nb::sequence draws) {
        const auto rounds = int64_t(programs.size()) / steps().gradient_steps();
        if (rounds * steps().gradient_steps() != int64_t(programs.size()))
            throw nb::value_error("programs: allowed: those of whole rounds");
        steps().act_with(drawn(exploring, rounds * steps().vector_steps()));
        try {
            run(programs, rng, betas, draws);
        } catch (...) {
            steps().act_with({}); // a call that is refused leaves none to the next
            throw;
        }
    }

    // Vector steps with given actions, a vector of int64 or float32, and the insertion of their transitions.
    void fill(nb::handle actions, int64_t vector_steps) {
        const Rollout &rollout = steps().rollout();
        PyArrayObject *given = numpy::vector_of(actions, rollout.discrete() ? NPY_INT64 : NPY_FLOAT32);
        const auto bytes = size_t(vector_steps * rollout.count()) * rollout.action_bytes();
        if (!given || size_t(PyArray_NBYTES(given)) != bytes)
            throw nb::type_error("actions: allowed: a vector of the actions of all vector steps");
        nb::gil_scoped_release free;
        steps().fill(vector_steps, numpy::data<const std::byte>(given));
    }

    nb::list take_episodes() {
        nb::list all;
        for (const Episode &episode : steps().rollout().take_episodes())
            all.append(nb::make_tuple(episode.environment_step, episode.total_reward));
        return all;
    }
    int64_t environment_steps() { return steps().rollout().environment_steps(); }
    nb::dict spent_s() {
        const Rounds::Spent &spent = steps().spent();
        nb::dict terms;
        terms["environment"] = spent.environment;
        terms["infer"] = spent.infer;
        terms["insert"] = spent.insert;
        terms["step"] = spent.step;
        return terms;
    }

  private:
    static Rounds::Acting acting_of(
        const std::tuple<nb::object, nb::object, std::array<int64_t, 4>, int, std::array<size_t, 5>> &given) {
        const auto &[environments, first, counts, explore, columns] = given;
        auto &envs = nb::cast<environments::VectorEnv &>(environments);
        PyArrayObject *rows = numpy::vector_of(first, NPY_FLOAT32);
        if (!rows || PyArray_SIZE(rows) != envs.count() * envs.spec().observation_width)
            throw nb::type_error("first: allowed: a float32 vector of the environments' observations");
        return {envs,      numpy::data<const float>(rows),
                counts[0], counts[1],
                counts[2], counts[3],
                explore,   {columns[0], columns[1], columns[2], columns[3], columns[4]}};
    }

    // The random numbers of the actions of the next vector steps.
    std::vector<float> drawn(nb::handle exploring, int64_t vector_steps) {
        const Rollout &rollout = steps().rollout();
        const int64_t count = rollout.count(), width = steps().draws();
        std::vector<float> numbers(size_t(vector_steps * count * width));
        if (!exploring_.use(exploring))
            throw nb::type_error("rng: allowed: numpy.random.Generator");
        exploring_.draw([&](bitgen_t *bits) {
            for (int64_t t = 0; t < vector_steps; ++t)
                draw_exploration(bits, exploration_, rollout.environment_steps() + t * count, count, width,
                                 numbers.data() + t * count * width, uniform_);
        });
        return numbers;
    }

    nb::object environments_; // kept alive: the steps refer to what is inside
    const Exploration exploration_;
    numpy::Source exploring_;
    std::vector<double> uniform_;
};

void bind_rounds(nb::module_ &m) {
    nb::class_<BoundRounds>(m, "Rounds")
        .def(nb::init<nb::object, nb::object, int64_t, const fused::SourceArguments &,
                      const std::vector<std::size_t> &,
                      std::tuple<nb::object, nb::object, std::array<int64_t, 4>, int, std::array<size_t, 5>>,
                      std::tuple<bool, double, double, int64_t>>())
        .def("run", &BoundRounds::run)
        .def("run_rounds", &BoundRounds::run_rounds)
        .def("fill", &BoundRounds::fill)
        .def("take_episodes", &BoundRounds::take_episodes)
        .def("spent_s", &BoundRounds::spent_s)
        .def_prop_ro("taken", &BoundRounds::taken)
        .def_prop_ro("scalars", &BoundRounds::scalars)
        .def_prop_ro("environment_steps", &BoundRounds::environment_steps);
}

} // namespace
} // namespace placerl::training
