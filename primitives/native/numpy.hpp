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

// The random source of one numpy.random.Generator; kept from call to call, since finding it takes four
// look-ups. Re-initialised, a Generator has another bit generator and may have let go of the first, so that
// each call asks for it, and the one that is pointed to is kept alive here.
class Source {
  public:
    // The bit generator that `generator` has now; null where it is no numpy.random.Generator.
    static nb::object bits_of(nb::handle generator) {
        // Without C++'s guard of a static: importing may let go of the interpreter, which a thread that waits
        // at the guard holds. At worst two threads look the same things up.
        static PyObject *type = nullptr, *name = nullptr;
        if (!type) {
            name = nb::str("bit_generator").release().ptr();
            type = nb::object(nb::module_::import_("numpy.random").attr("Generator")).release().ptr();
        }
        if (!PyObject_TypeCheck(generator.ptr(), reinterpret_cast<PyTypeObject *>(type)))
            return {};
        PyObject *bits = PyObject_GetAttr(generator.ptr(), name);
        if (!bits)
            nb::raise_python_error();
        return nb::steal(bits);
    }

    Source() = default;
    explicit Source(nb::object bits) : bits_(std::move(bits)) {
        capsule_ = bits_.attr("capsule");
        bitgen_ = static_cast<bitgen_t *>(PyCapsule_GetPointer(capsule_.ptr(), "BitGenerator"));
        if (!bitgen_)
            nb::raise_python_error();
        acquire_ = bits_.attr("lock").attr("acquire");
        release_ = bits_.attr("lock").attr("release");
    }

    // Whether this draws from these bits, which are not null.
    bool is(nb::handle bits) const { return bits.is(bits_); }

    // False where `generator` is no numpy.random.Generator.
    bool use(nb::handle generator) {
        nb::object bits = bits_of(generator);
        if (!bits)
            return false;
        if (!is(bits))
            *this = Source(std::move(bits));
        return true;
    }

    // Calls `draw(bits)`, which throws nothing. NumPy draws with the GIL released but this lock held, so both
    // are needed here. While it waits for the lock, the GIL is free, and another thread may give this object
    // another generator: hence the copy.
    template <typename Draw>
    void draw(const Draw &draw) const {
        const Source mine = *this;
        mine.acquire_();
        draw(mine.bitgen_);
        mine.release_();
    }

    Words words() const {
        Words words;
        draw([&](bitgen_t *bits) { words = next_words(bits); });
        return words;
    }

    static Words next_words(bitgen_t *bits) {
        const uint64_t first = bits->next_uint64(bits->state);
        return {first, bits->next_uint64(bits->state)};
    }

  private:
    nb::object bits_, capsule_, acquire_, release_; // the memory of `bitgen_` belongs to the first
    bitgen_t *bitgen_ = nullptr;
};

} // namespace
} // namespace placerl::numpy
