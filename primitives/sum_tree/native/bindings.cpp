// Python's view of KaryTree.
#include "native/numpy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <nanobind/stl/string.h>

#include "sum_tree/native/binary_tree.hpp"
#include "sum_tree/native/bindings.hpp"
#include "sum_tree/native/kary_tree.hpp"
#include "sum_tree/native/plain_tree_bindings.hpp"

namespace nb = nanobind;

namespace placerl::sum_tree {
namespace {

using namespace numpy;

Seed seed_from(Words words) { return {{words.first, words.second}}; }

// Each call answers None or False, having done nothing, where an argument is not exactly what it takes: the
// Python class then converts it or says what is wrong. Each call is atomic, as it holds the GIL; `sample`
// lets it go only while it waits for the generator's lock, before it reads the tree.
template <typename Real>
class Tree {
  public:
    Tree(int64_t capacity, int fanout, double priority_max, bool aligned, int64_t running_sums_max,
         const std::string &simd, int threads)
        : tree_(capacity, fanout, {aligned, running_sums_max}, simd), priority_max_(priority_max) {
        tree_.use_threads(threads);
    }

    double total() const { return tree_.total(); }
    std::string simd() const { return tree_.simd(); }
    size_t bytes() const { return tree_.bytes(); }

    nb::object find(nb::handle prefix) {
        PyArrayObject *prefixes = vector_of(prefix, NPY_DOUBLE);
        if (!prefixes)
            return nb::none();
        const npy_intp count = PyArray_SIZE(prefixes);
        const double below_total = std::nextafter(tree_.total(), 0.0);
        if (count && (!(tree_.total() > 0) || !within(data<double>(prefixes), count, below_total)))
            return nb::none();
        nb::object indices = new_vector(count, NPY_INT64);
        tree_.find(data<double>(prefixes), data<int64_t>(indices), count);
        return indices;
    }

    nb::object sample(nb::handle batch_size, nb::handle rng, nb::handle stratified) {
        if (!PyLong_CheckExact(batch_size.ptr()) || !PyBool_Check(stratified.ptr()))
            return nb::none();
        const npy_intp count = PyLong_AsSsize_t(batch_size.ptr());
        if (count == -1)
            PyErr_Clear();
        if (count < 1 || !(tree_.total() > 0) || !source_.use(rng))
            return nb::none();
        nb::object indices = new_vector(count, NPY_INT64);
        const Seed seed = seed_from(source_.words());
        if (!(tree_.total() > 0)) // another thread may have taken the last priority during the wait
            return nb::none();
        tree_.sample(seed, stratified.ptr() == Py_True, data<int64_t>(indices), count);
        return indices;
    }

    bool update(nb::handle indices, nb::handle priorities) {
        PyArrayObject *leaves = vector_of(indices, NPY_INT64);
        if (!leaves || !in_range(data<int64_t>(leaves), PyArray_SIZE(leaves), tree_.capacity()))
            return false;
        if (PyArrayObject *doubles = vector_of(priorities, NPY_DOUBLE))
            return update_checked<double>(leaves, doubles);
        if (PyArrayObject *floats = vector_of(priorities, NPY_FLOAT))
            return update_checked<float>(leaves, floats);
        return false;
    }

    void settle() { tree_.keep(); }

    nb::object get(nb::handle indices) const {
        PyArrayObject *leaves = vector_of(indices, NPY_INT64);
        if (!leaves)
            return nb::none();
        const npy_intp count = PyArray_SIZE(leaves);
        const int64_t *at = data<int64_t>(leaves);
        if (!in_range(at, count, tree_.capacity()))
            return nb::none();
        nb::object priorities = new_vector(count, sizeof(Real) == 4 ? NPY_FLOAT : NPY_DOUBLE);
        Real *out = data<Real>(priorities);
        for (npy_intp b = 0; b < count; ++b)
            out[b] = tree_.priorities()[at[b]];
        return priorities;
    }

  private:
    template <typename T>
    bool update_checked(PyArrayObject *leaves, PyArrayObject *values) {
        const npy_intp count = PyArray_SIZE(leaves);
        // What the tree allows may be more than a float can hold: then all of them but infinity.
        const T high = T(std::min(priority_max_, double(std::numeric_limits<T>::max())));
        if (PyArray_SIZE(values) != count || !within(data<T>(values), count, high))
            return false;
        if (count)
            tree_.update(data<int64_t>(leaves), data<T>(values), count);
        return true;
    }

    KaryTree<Real> tree_;
    double priority_max_;
    Source source_;
};

template <typename Real>
void bind_binary_tree(nb::module_ &m, const char *name) {
    bind_plain_tree<Real, BinaryTree<Real>>(m, name)
        .def(nb::init<int64_t>(), nb::arg("capacity"))
        .def("draw", &PlainTree<Real, BinaryTree<Real>>::draw);
}

template <typename Real>
void bind_tree(nb::module_ &m, const char *name) {
    nb::class_<Tree<Real>>(m, name)
        .def(nb::init<int64_t, int, double, bool, int64_t, const std::string &, int>(), nb::arg("capacity"),
             nb::arg("fanout"), nb::arg("priority_max"), nb::arg("aligned"), nb::arg("running_sums_max"),
             nb::arg("simd"), nb::arg("threads"))
        .def_prop_ro("total", &Tree<Real>::total)
        .def_prop_ro("simd", &Tree<Real>::simd)
        .def_prop_ro("nbytes", &Tree<Real>::bytes)
        .def("find", &Tree<Real>::find, nb::arg().none())
        .def("sample", &Tree<Real>::sample, nb::arg().none(), nb::arg().none(), nb::arg().none())
        .def("update", &Tree<Real>::update, nb::arg().none(), nb::arg().none())
        .def("settle", &Tree<Real>::settle)
        .def("get", &Tree<Real>::get, nb::arg().none());
}

} // namespace

void bind_sum_tree(nb::module_ &parent) {
    import_numpy();
    nb::module_ m = parent.def_submodule("sum_tree", "The K-ary sum tree in C++");
    m.def("has_openmp", &has_openmp, "Whether large batches can use several threads.");
    bind_tree<float>(m, "Tree32");
    bind_tree<double>(m, "Tree64");
    bind_binary_tree<float>(m, "BinaryTree32");
    bind_binary_tree<double>(m, "BinaryTree64");
}

} // namespace placerl::sum_tree
