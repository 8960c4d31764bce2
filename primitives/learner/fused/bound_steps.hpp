// What Python sees of gradient steps that sample, train and update priorities in one call, whatever makes
// them.
#pragma once

#include "native/numpy.hpp"

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "learner/fused/steps.hpp"
#include "replay/native/bindings.hpp"

namespace placerl::fused {

// (kind, index, name, limit) of each input, kind 0 for a column, 1 for the weight, 2 for a draw.
using SourceArguments = std::vector<std::tuple<int, int, std::string, int64_t>>;

// `AnySteps`: `fused::Steps`, or steps with the same members. `options` are what its constructor takes
// besides.
template <typename AnySteps>
class BoundSteps {
  public:
    template <typename... Options>
    BoundSteps(nanobind::object replay, nanobind::object executor, int64_t batch_size,
               const SourceArguments &sources, const std::vector<std::size_t> &td_outputs, Options... options)
        : replay_(replay), executor_(executor), parts_(replay::parts_of(replay)),
          steps_(*parts_.replay, nanobind::cast<learner::Executor &>(executor), batch_size,
                 parts_.priority_max, sources_of(sources), td_outputs, options...) {}

    int64_t taken() const { return steps_.taken(); }
    std::size_t samples_for(std::size_t steps) const { return steps_.samples_for(steps); }

    void run(const std::vector<int> &programs, nanobind::handle rng, const std::vector<double> &betas,
             nanobind::sequence draws) {
        const learner::Executor::Claim claim(nanobind::cast<learner::Executor &>(executor_));
        Steps::Run run{programs, {}, betas, {}};
        if (programs.empty() || betas.size() != steps_.samples_for(programs.size()))
            throw nanobind::value_error(
                "programs, betas: allowed: at least one, and one beta for each sample");
        if (!source_.use(rng))
            throw nanobind::type_error("rng: allowed: numpy.random.Generator");
        run.seeds.reserve(betas.size());
        source_.draw([&](bitgen_t *bits) {
            for (std::size_t s = 0; s < betas.size(); ++s) {
                const numpy::Words words = numpy::Source::next_words(bits);
                run.seeds.push_back({{words.first, words.second}});
            }
        });
        for (nanobind::handle draw : draws)
            run.draws.push_back(
                static_cast<const std::byte *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(draw.ptr()))));
        {
            nanobind::gil_scoped_release released;
            steps_.run(run, *parts_.samples_drawn);
        }
        // Kept here: the next program may overwrite the arena.
        scalars_.clear();
        for (const learner::Transfer &output : steps_.outputs(programs.back()))
            scalars_.push_back(output.bytes == 4 && output.type == learner::Type::float32
                                   ? learner::read_element(output.place, output.type)
                                   : NAN);
    }

    // The scalar outputs of the last step, nan for the others.
    const std::vector<float> &scalars() const { return scalars_; }

  protected:
    AnySteps &steps() { return steps_; }
    const replay::Parts &parts() const { return parts_; }

  private:
    static std::vector<Source> sources_of(const SourceArguments &given) {
        std::vector<Source> sources;
        for (const auto &[kind, index, name, limit] : given)
            sources.push_back({static_cast<Source::Kind>(kind), index, name, limit});
        return sources;
    }

    nanobind::object replay_, executor_; // kept alive: the steps refer to what is inside
    replay::Parts parts_;
    numpy::Source source_;
    AnySteps steps_;
    std::vector<float> scalars_;
};

} // namespace placerl::fused
