// Python's view of a sum tree whose calls are its own: `primitives._native` and the harness's experiments
// have such. Internal linkage, as that of native/numpy.hpp.
#pragma once

#include "native/numpy.hpp"

namespace placerl::sum_tree {
namespace {

using namespace numpy;

// Arguments have been checked by the Python class, but for what another thread may have changed meanwhile.
template <typename Real, typename T>
class PlainTree {
  public:
    template <typename... Arguments>
    explicit PlainTree(Arguments... arguments) : tree_(arguments...) {}

    double total() const {
        const nb::gil_scoped_release release;
        return tree_.total();
    }

    nb::object find(nb::handle prefix) const {
        return leaves(
            prefix, "prefix: found one outside [0, total); the total has changed meanwhile",
            [this](const double *from, int64_t *to, int64_t count) { return tree_.find(from, to, count); });
    }

    // The leaves at fractions of the total, in [0, 1], of a tree that has `draw`.
    nb::object draw(nb::handle fraction) const {
        return leaves(
            fraction, "total: found 0; allowed: at least one positive priority before leaves are drawn",
            [this](const double *from, int64_t *to, int64_t count) { return tree_.draw(from, to, count); });
    }

    void update(nb::handle indices, nb::handle priorities) {
        PyArrayObject *leaves = checked(indices, NPY_INT64);
        PyArrayObject *values = checked(priorities, NPY_DOUBLE);
        const nb::gil_scoped_release release;
        tree_.update(data<int64_t>(leaves), data<double>(values), PyArray_SIZE(leaves));
    }

    nb::object get(nb::handle indices) const {
        PyArrayObject *leaves = checked(indices, NPY_INT64);
        nb::object priorities = new_vector(PyArray_SIZE(leaves), sizeof(Real) == 4 ? NPY_FLOAT : NPY_DOUBLE);
        Real *to = data<Real>(priorities);
        const nb::gil_scoped_release release;
        tree_.get(data<int64_t>(leaves), to, PyArray_SIZE(leaves));
        return priorities;
    }

  protected:
    static PyArrayObject *checked(nb::handle object, int type) {
        PyArrayObject *array = vector_of(object, type);
        if (!array)
            throw nb::type_error("found something else than a contiguous vector of the type wanted");
        return array;
    }

    // What `found` writes for each position; an error that says `otherwise` where it answers False.
    template <typename Found>
    static nb::object leaves(nb::handle positions, const char *otherwise, Found found) {
        PyArrayObject *from = checked(positions, NPY_DOUBLE);
        const npy_intp count = PyArray_SIZE(from);
        nb::object indices = new_vector(count, NPY_INT64);
        const double *position = data<double>(from);
        int64_t *to = data<int64_t>(indices);
        bool all = false;
        {
            const nb::gil_scoped_release release;
            all = found(position, to, count);
        }
        if (!all)
            throw nb::value_error(otherwise);
        return indices;
    }

    T tree_;
};

template <typename Real, typename T, typename Bound = PlainTree<Real, T>>
nb::class_<Bound> bind_plain_tree(nb::module_ &m, const char *name) {
    return nb::class_<Bound>(m, name)
        .def_prop_ro("total", &Bound::total)
        .def("find", &Bound::find)
        .def("update", &Bound::update)
        .def("get", &Bound::get);
}

} // namespace
} // namespace placerl::sum_tree
