// Python's view of fused gradient steps; `primitives.learner.fused` checks what it passes.
#include "native/numpy.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "learner/fused/bindings.hpp"
#include "learner/fused/bound_steps.hpp"

namespace nb = nanobind;

namespace placerl::fused {

void bind_fused(nb::module_ &parent) {
    numpy::import_numpy();
    nb::module_ m = parent.def_submodule("fused", "Gradient steps of replay and learner in one call");
    using Fused = BoundSteps<Steps>;
    nb::class_<Fused>(m, "Fused")
        .def(nb::init<nb::object, nb::object, int64_t, const SourceArguments &,
                      const std::vector<std::size_t> &>())
        .def_prop_ro("taken", &Fused::taken)
        .def("run", &Fused::run)
        .def_prop_ro("scalars", &Fused::scalars);
}

} // namespace placerl::fused
