// Python's view of fused gradient steps; `primitives.learner.fused` checks what it passes.
#include "native/numpy.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "learner/fused/bindings.hpp"
#include "learner/fused/steps.hpp"
#include "replay/native/bindings.hpp"

namespace nb = nanobind;

namespace placerl::fused {
namespace {

class Fused {
  public:
    // `sources`: (kind, index, name) of each input, kind 0 for a column, 1 for the weight, 2 for a draw.
    Fused(nb::object replay, nb::object executor, int64_t batch_size,
          const std::vector<std::tuple<int, int, std::string>> &sources,
          const std::vector<std::size_t> &td_outputs)
        : replay_(replay), executor_(executor), parts_(replay::parts_of(replay)),
          steps_(*parts_.replay, nb::cast<learner::Executor &>(executor), batch_size, parts_.priority_max,
                 sources_of(sources), td_outputs) {}

    int64_t taken() const { return steps_.taken(); }

    void run(const std::vector<int> &programs, nb::handle rng, const std::vector<double> &betas,
             nb::sequence draws) {
        Steps::Run run{programs, {}, betas, {}};
        if (programs.empty() || betas.size() != programs.size())
            throw nb::value_error("programs, betas: allowed: as many of both, at least one");
        if (!source_.use(rng))
            throw nb::type_error("rng: allowed: numpy.random.Generator");
        for (std::size_t s = 0; s < programs.size(); ++s) {
            const numpy::Words words = source_.words();
            run.seeds.push_back({{words.first, words.second}});
        }
        for (nb::handle draw : draws)
            run.draws.push_back(
                static_cast<const std::byte *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(draw.ptr()))));
        {
            nb::gil_scoped_release released;
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

  private:
    static std::vector<Source> sources_of(const std::vector<std::tuple<int, int, std::string>> &given) {
        std::vector<Source> sources;
        for (const auto &[kind, index, name] : given)
            sources.push_back({static_cast<Source::Kind>(kind), index, name});
        return sources;
    }

    nb::object replay_, executor_; // kept alive: the steps refer to what is inside
    replay::Parts parts_;
    numpy::Source source_;
    Steps steps_;
    std::vector<float> scalars_;
};

} // namespace

void bind_fused(nb::module_ &parent) {
    numpy::import_numpy();
    nb::module_ m = parent.def_submodule("fused", "Gradient steps of replay and learner in one call");
    nb::class_<Fused>(m, "Fused")
        .def(nb::init<nb::object, nb::object, int64_t, const std::vector<std::tuple<int, int, std::string>> &,
                      const std::vector<std::size_t> &>())
        .def_prop_ro("taken", &Fused::taken)
        .def("run", &Fused::run)
        .def_prop_ro("scalars", &Fused::scalars);
}

} // namespace placerl::fused
