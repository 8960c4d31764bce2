// Python's view of relaxed gradient steps; `primitives.learner.relaxed` checks what it passes.
#include "native/numpy.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "learner/fused/bound_steps.hpp"
#include "learner/relaxed/bindings.hpp"
#include "learner/relaxed/steps.hpp"

namespace nb = nanobind;

namespace placerl::relaxed {
namespace {

// Also made with D, and whether the replay manager has a thread of its own.
class Relaxed : public fused::BoundSteps<Steps> {
  public:
    using BoundSteps::BoundSteps;
    // The manager may wait for a snapshot, whose thread needs the GIL to end it.
    ~Relaxed() {
        nb::gil_scoped_release released;
        steps().manager().end();
    }

    // `columns`: contiguous arrays (n, ...), one for each of the replay's; `td_errors`: n, or none.
    void insert(nb::sequence columns, int64_t count, const std::vector<double> &td_errors) {
        std::vector<double> priorities;
        for (const double td_error : td_errors) {
            priorities.push_back(parts().replay->priority_of(td_error));
            if (!(priorities.back() <= parts().priority_max))
                throw nb::value_error(
                    ("td_errors: found a priority above the largest, " + std::to_string(parts().priority_max))
                        .c_str());
        }
        std::vector<const char *> rows;
        std::vector<std::size_t> row_bytes;
        for (nb::handle column : columns)
            rows.push_back(PyArray_BYTES(reinterpret_cast<PyArrayObject *>(column.ptr())));
        for (const replay::Column &column : parts().replay->columns())
            row_bytes.push_back(column.row_bytes);
        nb::gil_scoped_release released;
        steps().insert(rows, row_bytes, count, std::move(priorities));
    }

    void drain() {
        nb::gil_scoped_release released;
        steps().manager().drain();
    }

    // Seconds so far of sample, update, insert (the manager's thread), learn and wait (the caller's).
    std::tuple<double, double, double, double, double> seconds() {
        const Seconds &manager = steps().manager().seconds();
        return {manager.sample, manager.update, manager.insert, steps().learn_s(), steps().wait_s()};
    }
};

} // namespace

void bind_relaxed(nb::module_ &parent) {
    numpy::import_numpy();
    nb::module_ m =
        parent.def_submodule("relaxed", "Gradient steps while a replay manager works ahead of them");
    nb::class_<Relaxed>(m, "Relaxed")
        .def(nb::init<nb::object, nb::object, int64_t, const fused::SourceArguments &,
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
