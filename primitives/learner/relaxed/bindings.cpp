// Python's view of relaxed gradient steps; `primitives.learner.relaxed` checks what it passes.
#include "native/numpy.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "learner/relaxed/bindings.hpp"
#include "learner/relaxed/steps.hpp"
#include "replay/native/bindings.hpp"

namespace nb = nanobind;

namespace placerl::relaxed {
namespace {

class Relaxed {
  public:
    // `sources`: (kind, index, name) of each input, kind 0 for a column, 1 for the weight, 2 for a draw.
    Relaxed(nb::object replay, nb::object executor, int64_t batch_size,
            const std::vector<std::tuple<int, int, std::string>> &sources,
            const std::vector<std::size_t> &td_outputs, std::size_t ahead, bool beside)
        : replay_(replay), executor_(executor), parts_(replay::parts_of(replay)),
          steps_(*parts_.replay, nb::cast<learner::Executor &>(executor), batch_size, parts_.priority_max,
                 sources_of(sources), td_outputs, ahead, beside) {}

    int64_t taken() const { return steps_.taken(); }
    std::size_t samples_for(std::size_t steps) const { return steps_.samples_for(steps); }

    void run(const std::vector<int> &programs, nb::handle rng, const std::vector<double> &betas,
             nb::sequence draws) {
        Steps::Run run{programs, {}, betas, {}};
        if (programs.empty() || betas.size() != steps_.samples_for(programs.size()))
            throw nb::value_error("programs, betas: allowed: at least one, and one beta for each sample");
        if (!source_.use(rng))
            throw nb::type_error("rng: allowed: numpy.random.Generator");
        for (std::size_t s = 0; s < betas.size(); ++s) {
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

    // `columns`: contiguous arrays (n, ...), one for each of the replay's; `td_errors`: n, or none.
    void insert(nb::sequence columns, int64_t count, const std::vector<double> &td_errors) {
        std::vector<double> priorities;
        for (const double td_error : td_errors)
            priorities.push_back(parts_.replay->priority_of(td_error));
        std::vector<const char *> rows;
        std::vector<std::size_t> row_bytes;
        for (nb::handle column : columns)
            rows.push_back(PyArray_BYTES(reinterpret_cast<PyArrayObject *>(column.ptr())));
        for (const replay::Column &column : parts_.replay->columns())
            row_bytes.push_back(column.row_bytes);
        nb::gil_scoped_release released;
        steps_.insert(rows, row_bytes, count, std::move(priorities));
    }

    void drain() {
        nb::gil_scoped_release released;
        steps_.manager().drain();
    }

    // Seconds so far of sample, update, insert (the manager's thread), learn and wait (the caller's).
    std::tuple<double, double, double, double, double> seconds() {
        const Seconds &manager = steps_.manager().seconds();
        return {manager.sample, manager.update, manager.insert, steps_.learn_s(), steps_.wait_s()};
    }

    // The scalar outputs of the last step, nan for the others.
    const std::vector<float> &scalars() const { return scalars_; }

  private:
    static std::vector<fused::Source>
    sources_of(const std::vector<std::tuple<int, int, std::string>> &given) {
        std::vector<fused::Source> sources;
        for (const auto &[kind, index, name] : given)
            sources.push_back({static_cast<fused::Source::Kind>(kind), index, name});
        return sources;
    }

    nb::object replay_, executor_; // kept alive: the steps refer to what is inside
    replay::Parts parts_;
    numpy::Source source_;
    Steps steps_;
    std::vector<float> scalars_;
};

} // namespace

void bind_relaxed(nb::module_ &parent) {
    numpy::import_numpy();
    nb::module_ m =
        parent.def_submodule("relaxed", "Gradient steps while a replay manager works ahead of them");
    nb::class_<Relaxed>(m, "Relaxed")
        .def(nb::init<nb::object, nb::object, int64_t, const std::vector<std::tuple<int, int, std::string>> &,
                      const std::vector<std::size_t> &, std::size_t, bool>())
        .def_prop_ro("taken", &Relaxed::taken)
        .def_prop_ro("seconds", &Relaxed::seconds)
        .def("samples_for", &Relaxed::samples_for)
        .def("run", &Relaxed::run)
        .def("insert", &Relaxed::insert)
        .def("drain", &Relaxed::drain)
        .def_prop_ro("scalars", &Relaxed::scalars);
}

} // namespace placerl::relaxed
