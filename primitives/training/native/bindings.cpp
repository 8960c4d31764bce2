// Python's view of ParallelTraining; `primitives.training.parallel` makes and checks what it passes.
#include "native/numpy.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "environments/native/bindings.hpp"
#include "replay/native/bindings.hpp"
#include "training/native/bindings.hpp"
#include "training/native/blocks.hpp"
#include "training/native/executor_parts.hpp"
#include "training/native/iterations_bindings.hpp"
#include "training/native/parallel_training.hpp"
#include "training/native/rounds_bindings.hpp"

namespace nb = nanobind;

namespace placerl::training {
namespace {

// (kind, index, name, limit) of each input
using PhaseArguments = std::pair<int, std::vector<std::tuple<int, int, std::string, int64_t>>>;
// phases, (from phase, output, to phase, input, averaged) of each link, output of the TD errors
using PlanArguments =
    std::tuple<std::vector<PhaseArguments>, std::vector<std::tuple<int, int, int, int, bool>>, int>;

std::vector<StepPlan> plans_of(const std::vector<PlanArguments> &given) {
    std::vector<StepPlan> plans;
    for (const auto &[phases, links, td_output] : given) {
        StepPlan &plan = plans.emplace_back();
        plan.td_output = td_output;
        for (const auto &[program, inputs] : phases) {
            plan.phases.push_back({program, {}});
            for (const auto &[kind, index, name, limit] : inputs)
                plan.phases.back().inputs.push_back(
                    {static_cast<PhaseInput::Kind>(kind), index, name, limit});
        }
        for (const auto &[from_phase, output, to_phase, input, averaged] : links)
            plan.links.push_back({from_phase, output, to_phase, input, averaged});
    }
    return plans;
}

class Threads {
  public:
    // actors: (environments, executor, program, weights), learners: (executor, acting weights). ahead: (D,
    // whether a replay manager of each learner has a thread).
    Threads(nb::object replay, nb::list actors, nb::list learners, const std::vector<PlanArguments> &plans,
            const std::vector<std::size_t> &columns, std::tuple<bool, double, double, int64_t> exploration,
            int64_t batch_size, std::tuple<int64_t, int64_t, int64_t> pace,
            std::tuple<double, double, int64_t> beta, std::tuple<std::size_t, bool> ahead,
            std::vector<int> variants, uint64_t seed)
        : kept_(nb::make_tuple(replay, actors, learners)), parts_(replay::parts_of(replay)) {
        const auto &[epsilon_greedy, first, last, steps] = exploration;
        const TransitionColumns at{columns.at(0), columns.at(1), columns.at(2), columns.at(3), columns.at(4)};
        Random seeds(seed);
        std::vector<std::unique_ptr<Actor>> made;
        for (nb::handle actor : actors) {
            auto &environments = nb::cast<environments::VectorEnv &>(actor[0]);
            policies_.push_back(std::make_unique<ExecutorPolicy>(
                nb::cast<learner::Executor &>(actor[1]), nb::cast<int>(actor[2]),
                blocks_of(nb::cast<nb::list>(actor[3])), Exploration{epsilon_greedy, first, last, steps},
                environments.count()));
            made.push_back(std::make_unique<Actor>(environments, *policies_.back(), at, seeds.next()));
        }
        std::vector<GradientStep *> steps_of_all;
        for (nb::handle learner : learners) {
            steps_.push_back(std::make_unique<ExecutorStep>(
                *parts_.replay, nb::cast<learner::Executor &>(learner[0]), plans_of(plans), batch_size,
                parts_.priority_max, blocks_of(nb::cast<nb::list>(learner[1])), std::get<0>(ahead),
                std::get<1>(ahead)));
            steps_of_all.push_back(steps_.back().get());
        }
        const auto &[starts, interval, lead] = pace;
        const bool in_turns = lead == 0 && made.size() == 1 && steps_of_all.size() == 1;
        training_ = std::make_unique<ParallelTraining>(
            *parts_.replay, std::move(made), std::move(steps_of_all), steps_.front()->acting(),
            ParallelTraining::Schedule{starts,
                                       interval,
                                       lead,
                                       {std::get<0>(beta), std::get<1>(beta), std::get<2>(beta)},
                                       std::move(variants),
                                       seeds.next(),
                                       in_turns});
    }

    // Ctrl-C is looked for meanwhile: the threads then end their steps before it is raised.
    void run(int64_t steps, int working) {
        const int64_t before = training_->gradient_steps();
        training_->start(steps, static_cast<Working>(working));
        bool ended = false, interrupted = false;
        while (!ended) {
            {
                nb::gil_scoped_release free;
                ended = training_->wait_for(0.05);
            }
            if (!ended && !interrupted && PyErr_CheckSignals() != 0) {
                interrupted = true;
                training_->stop();
            }
        }
        parts_.samples_drawn->fetch_add(training_->gradient_steps() - before);
        if (!interrupted)
            return training_->join();
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        try {
            training_->join();
        } catch (...) { // Ctrl-C goes first
        }
        PyErr_Restore(type, value, traceback);
        nb::raise_python_error();
    }

    // Cores of the threads of learners, of their managers and of actors; without learners' none is bound.
    void place(const std::vector<int> &learners, const std::vector<int> &managers,
               const std::vector<int> &actors) {
        training_->place(learners, actors);
        for (size_t rank = 0; rank < managers.size(); ++rank)
            steps_.at(rank)->manager().bind(managers[rank]);
    }

    nb::list take_episodes() {
        nb::list all;
        for (const Episode &episode : training_->take_episodes())
            all.append(nb::make_tuple(episode.environment_step, episode.total_reward));
        return all;
    }
    nb::dict spent_s() const {
        Spent spent = training_->spent();
        if (steps_.front()->manager().beside()) { // the learners wait while their managers work
            spent.learner_wait += spent.sample + spent.update;
            spent.sample = spent.update = 0;
            for (const auto &step : steps_) {
                spent.sample += step->manager().seconds().sample;
                spent.update += step->manager().seconds().update;
            }
        }
        nb::dict terms;
        terms["environment"] = spent.environment;
        terms["infer"] = spent.infer;
        terms["insert"] = spent.insert;
        terms["actor_wait"] = spent.actor_wait;
        terms["sample"] = spent.sample;
        terms["learner"] = spent.learner;
        terms["aggregate"] = spent.aggregate;
        terms["update"] = spent.update;
        terms["learner_wait"] = spent.learner_wait;
        return terms;
    }
    ParallelTraining &training() const { return *training_; }

  private:
    nb::object kept_; // the threads work on what is inside
    replay::Parts parts_;
    std::vector<std::unique_ptr<ExecutorPolicy>> policies_;
    std::vector<std::unique_ptr<ExecutorStep>> steps_;
    std::unique_ptr<ParallelTraining> training_;
};

} // namespace

void bind_training(nb::module_ &parent) {
    numpy::import_numpy();
    nb::module_ m = parent.def_submodule("training", "Actors and learners in threads on one replay");
    nb::class_<Threads>(m, "Threads")
        .def(nb::init<nb::object, nb::list, nb::list, const std::vector<PlanArguments> &,
                      const std::vector<std::size_t> &, std::tuple<bool, double, double, int64_t>, int64_t,
                      std::tuple<int64_t, int64_t, int64_t>, std::tuple<double, double, int64_t>,
                      std::tuple<std::size_t, bool>, std::vector<int>, uint64_t>())
        .def("run", &Threads::run)
        .def("place", &Threads::place)
        .def("take_episodes", &Threads::take_episodes)
        .def("spent_s", &Threads::spent_s)
        .def("restore",
             [](Threads &t, int64_t environment_steps, int64_t gradient_steps) {
                 t.training().restore(environment_steps, gradient_steps);
             })
        .def_prop_ro("filled", [](const Threads &t) { return t.training().filled(); })
        .def_prop_ro("environment_steps", [](const Threads &t) { return t.training().environment_steps(); })
        .def_prop_ro("gradient_steps", [](const Threads &t) { return t.training().gradient_steps(); });
    bind_iterations(m);
    bind_rounds(m);
}

} // namespace placerl::training
