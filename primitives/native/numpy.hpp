// NumPy's own C interface, since a call must cost no more than the work in it: a
// conversion through buffers or DLPack takes longer than 32 descents of a sum tree.
// Include it before anything else of Python's; each translation unit that does calls
// import_numpy() first. Internal linkage: NumPy's table of functions has it too.
#pragma once

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <nanobind/nanobind.h>

#include <numpy/arrayobject.h>
#include <numpy/random/bitgen.h>

namespace placerl::numpy {
namespace {

namespace nb = nanobind;

int import_or_fail() {
    import_array1(-1);
    return 0;
}

[[maybe_unused]] void import_numpy() {
    if (import_or_fail() < 0)
        nb::raise_python_error();
}

// `object` as a contiguous vector of exactly that NumPy type, else null: the caller then converts and checks.
[[maybe_unused]] PyArrayObject *vector_of(nb::handle object, int type) {
    if (!PyArray_CheckExact(object.ptr()))
        return nullptr;
    auto *array = reinterpret_cast<PyArrayObject *>(object.ptr());
    const bool fits = PyArray_NDIM(array) == 1 && PyArray_TYPE(array) == type &&
                      PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISALIGNED(array) &&
                      PyArray_ISNOTSWAPPED(array);
    return fits ? array : nullptr;
}

template <typename T>
T *data(PyArrayObject *array) {
    return static_cast<T *>(PyArray_DATA(array));
}
template <typename T>
T *data(const nb::object &array) {
    return data<T>(reinterpret_cast<PyArrayObject *>(array.ptr()));
}

[[maybe_unused]] nb::object new_vector(npy_intp size, int type) {
    PyObject *array = PyArray_SimpleNew(1, &size, type);
    if (!array)
        nb::raise_python_error();
    return nb::steal(array);
}

[[maybe_unused]] bool in_range(const int64_t *indices, npy_intp count, int64_t capacity) {
    bool outside = false;
    for (npy_intp b = 0; b < count; ++b)
        outside |= uint64_t(indices[b]) >= uint64_t(capacity);
    return !outside;
}

// NaN compares false, so it is never within.
template <typename T>
bool within(const T *values, npy_intp count, T high) {
    bool outside = false;
    for (npy_intp b = 0; b < count; ++b)
        outside |= !(values[b] >= 0) | !(values[b] <= high);
    return !outside;
}

struct Words {
    uint64_t first, second;
};

// The random source of one numpy.random.Generator; kept from
// call to call, since finding it takes three look-ups.
class Source {
  public:
    bool is(nb::handle generator) const { return generator.is(generator_); }

    // False where `generator` is no numpy.random.Generator.
    bool use(nb::handle generator) {
        if (is(generator))
            return true;
        nb::object type = nb::module_::import_("numpy.random").attr("Generator");
        if (!nb::isinstance(generator, type))
            return false;
        nb::object bits = generator.attr("bit_generator");
        nb::object capsule = bits.attr("capsule");
        void *pointer = PyCapsule_GetPointer(capsule.ptr(), "BitGenerator");
        if (!pointer)
            nb::raise_python_error();
        acquire_ = bits.attr("lock").attr("acquire");
        release_ = bits.attr("lock").attr("release");
        bitgen_ = static_cast<bitgen_t *>(pointer);
        generator_ = nb::borrow(generator);
        return true;
    }

    // NumPy draws with the GIL released but this lock held, so both are needed here. While it waits for the
    // lock, the GIL is free, and another thread may give this object another generator: hence the copy.
    Words words() const {
        const Source mine = *this;
        mine.acquire_();
        const uint64_t first = mine.bitgen_->next_uint64(mine.bitgen_->state);
        const uint64_t second = mine.bitgen_->next_uint64(mine.bitgen_->state);
        mine.release_();
        return {first, second};
    }

  private:
    nb::object generator_, acquire_, release_;
    bitgen_t *bitgen_ = nullptr;
};

} // namespace
} // namespace placerl::numpy
