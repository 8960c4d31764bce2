// Python's view of ConcurrentReplay.
//
// The GIL is released for a call that moves many cache lines, and held for a small one, which is over sooner
// than the GIL could be handed over and back. No code under it ever waits for the GIL, so a thread that holds
// the GIL may wait for one that does not; only a frozen replay may not be waited for with the GIL, since a
// thread that needs the GIL thaws it.
#include "native/numpy.hpp"

#include "replay/native/bindings.hpp"
#include "replay/native/concurrent_replay.hpp"

namespace nb = nanobind;

namespace placerl::replay {
namespace {

using namespace numpy;

constexpr size_t columns_max = 64;

// The sources of the generators seen last: as a rule each thread has its own.
class Sources {
  public:
    // Null where `generator` is no numpy.random.Generator. Valid until the next call, which other threads may
    // make once the GIL is free.
    const Source *of(nb::handle generator) {
        nb::object bits = Source::bits_of(generator);
        if (!bits)
            return nullptr;
        for (Source &source : kept_)
            if (source.is(bits))
                return &source;
        Source source(std::move(bits));
        Source &replaced = kept_[oldest_];
        replaced = std::move(source);
        oldest_ = (oldest_ + 1) % kept;
        return &replaced;
    }

  private:
    static constexpr size_t kept = 8;
    Source kept_[kept];
    size_t oldest_ = 0;
};

// A batch's columns, kept alive while the GIL is released: another thread may change the dict they came from.
class Arrays {
  public:
    Arrays() = default;
    Arrays(const Arrays &) = delete;
    Arrays &operator=(const Arrays &) = delete;
    ~Arrays() {
        for (size_t c = 0; c < size_; ++c)
            Py_DECREF(array_[c]);
    }
    void add(PyArrayObject *array) {
        Py_INCREF(array);
        array_[size_] = array;
        bytes_[size_++] = PyArray_BYTES(array);
    }
    char *const *bytes() const { return bytes_; }

  private:
    PyArrayObject *array_[columns_max];
    char *bytes_[columns_max];
    size_t size_ = 0;
};

// One column of the storage as Python knows it.
struct Field {
    nb::object name;
    nb::object array;

    PyArrayObject *rows() const { return reinterpret_cast<PyArrayObject *>(array.ptr()); }
    int dimensions() const { return PyArray_NDIM(rows()); }
    size_t row_bytes() const { return size_t(PyArray_NBYTES(rows())) / size_t(PyArray_DIM(rows(), 0)); }

    // Whether `object` is an array (count, *shape) that can be copied row by row; any count when it is -1.
    bool fits(PyObject *object, npy_intp count) const {
        if (!object || !PyArray_CheckExact(object))
            return false;
        auto *other = reinterpret_cast<PyArrayObject *>(object);
        return PyArray_NDIM(other) == dimensions() && (count < 0 || PyArray_DIM(other, 0) == count) &&
               std::equal(PyArray_DIMS(other) + 1, PyArray_DIMS(other) + dimensions(),
                          PyArray_DIMS(rows()) + 1) &&
               PyArray_IS_C_CONTIGUOUS(other) &&
               PyArray_EquivTypes(PyArray_DESCR(other), PyArray_DESCR(rows()));
    }

    nb::object empty(npy_intp count) const {
        npy_intp shape[NPY_MAXDIMS];
        std::copy(PyArray_DIMS(rows()), PyArray_DIMS(rows()) + dimensions(), shape);
        shape[0] = count;
        Py_INCREF(PyArray_DESCR(rows()));
        PyObject *made = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(rows()), dimensions(), shape,
                                              nullptr, nullptr, 0, nullptr);
        if (!made)
            nb::raise_python_error();
        return nb::steal(made);
    }
};

// Calls answer None or False, having done nothing, where an argument is not exactly what they take: the
// Python class then converts it or says what is wrong.
class Replay {
  public:
    Replay(nb::dict columns, int64_t capacity, int fanout, double alpha, double epsilon, bool normalise,
           double priority_max, int64_t release_from_lines, int64_t running_sums_max)
        : fields_(fields_of(columns)), priority_max_(priority_max), release_from_lines_(release_from_lines),
          lines_per_item_(lines_of(fields_)),
          replay_(capacity, views_of(fields_), fanout, {alpha, epsilon, normalise, running_sums_max}) {}

    int64_t size() const { return replay_.size(); }
    int64_t taken() const { return replay_.taken(); }
    int64_t cursor() const { return replay_.cursor(); }
    double max_priority() const { return replay_.max_priority(); }
    int64_t samples_drawn() const { return samples_drawn_.load(); }
    Parts parts() { return {&replay_, &samples_drawn_, priority_max_}; }
    // Snapshots: the GIL is free while writers finish. Inserts are held before it is free, so that one that
    // found the replay not frozen, and therefore keeps the GIL, is over before: it would wait with the GIL.
    void freeze() {
        replay_.hold_inserts();
        nb::gil_scoped_release free;
        replay_.wait_for_inserts();
    }
    void thaw() { replay_.thaw(); }

    // -> the rows, (n,) int64, or None.
    nb::object insert(nb::handle batch, nb::handle td_errors) {
        if (!PyDict_CheckExact(batch.ptr()) || size_t(PyDict_Size(batch.ptr())) != fields_.size())
            return nb::none();
        Arrays items;
        npy_intp count = -1;
        for (size_t c = 0; c < fields_.size(); ++c) {
            PyObject *column = PyDict_GetItem(batch.ptr(), fields_[c].name.ptr());
            if (!fields_[c].fits(column, count))
                return nb::none();
            auto *array = reinterpret_cast<PyArrayObject *>(column);
            count = PyArray_DIM(array, 0);
            items.add(array);
        }
        if (count < 1 || count > replay_.capacity())
            return nb::none();
        std::vector<double> priorities;
        if (!td_errors.is_none() && !priorities_of(td_errors, count, priorities))
            return nb::none();
        int64_t first = 0;
        run(replay_.frozen() || is_long(count), [&] {
            first = replay_.insert(items.bytes(), count, priorities.empty() ? nullptr : priorities.data());
        });
        nb::object rows = new_vector(count, NPY_INT64);
        for (npy_intp i = 0; i < count; ++i)
            data<int64_t>(rows)[i] =
                first + i < replay_.capacity() ? first + i : first + i - replay_.capacity();
        return rows;
    }

    // Fills (indices, weights, columns), new ones when None ->
    // them, or None. Throws when there is nothing to sample.
    nb::object sample(nb::handle batch_size, nb::handle rng, nb::handle stratified, double beta,
                      nb::handle indices, nb::handle weights, nb::handle columns) {
        if (!PyLong_CheckExact(batch_size.ptr()) || !PyBool_Check(stratified.ptr()))
            return nb::none();
        const npy_intp count = PyLong_AsSsize_t(batch_size.ptr());
        if (count == -1)
            PyErr_Clear();
        if (count < 1)
            return nb::none();
        const bool fresh = indices.is_none();
        nb::object index = fresh ? new_vector(count, NPY_INT64) : nb::borrow(indices);
        nb::object weight = fresh ? new_vector(count, NPY_FLOAT) : nb::borrow(weights);
        nb::object batch = fresh ? empty(count) : nb::borrow(columns);
        PyArrayObject *index_out = vector_of(index, NPY_INT64), *weight_out = vector_of(weight, NPY_FLOAT);
        Arrays out;
        if (!index_out || !weight_out || PyArray_SIZE(index_out) != count ||
            PyArray_SIZE(weight_out) != count || !PyArray_ISWRITEABLE(index_out) ||
            !PyArray_ISWRITEABLE(weight_out) || !outputs(batch, count, out))
            return nb::none();
        const Source *source = sources_.of(rng);
        if (!source)
            return nb::none();
        if (replay_.taken() == 0) // before the generator is advanced
            throw empty_replay();
        const Words words = source->words();
        const bool in_parts = stratified.ptr() == Py_True;
        bool any = false;
        run(is_long(count), [&] {
            any = replay_.sample({{words.first, words.second}}, in_parts, count, beta,
                                 data<int64_t>(index_out), data<float>(weight_out), out.bytes());
        });
        if (!any)
            throw empty_replay();
        samples_drawn_.fetch_add(1, std::memory_order_relaxed);
        return nb::make_tuple(index, weight, batch);
    }

    // -> the columns, new ones when None, or None.
    nb::object gather(nb::handle indices, nb::handle columns) {
        PyArrayObject *rows = vector_of(indices, NPY_INT64);
        if (!rows || !in_range(data<int64_t>(rows), PyArray_SIZE(rows), replay_.taken()))
            return nb::none();
        const npy_intp count = PyArray_SIZE(rows);
        nb::object batch = columns.is_none() ? empty(count) : nb::borrow(columns);
        Arrays out;
        if (!outputs(batch, count, out))
            return nb::none();
        run(is_long(count), [&] { replay_.gather_rows(data<int64_t>(rows), count, out.bytes()); });
        return batch;
    }

    bool update(nb::handle indices, nb::handle td_errors) {
        PyArrayObject *rows = vector_of(indices, NPY_INT64);
        if (!rows || !in_range(data<int64_t>(rows), PyArray_SIZE(rows), replay_.taken()))
            return false;
        const npy_intp count = PyArray_SIZE(rows);
        std::vector<double> priorities;
        if (!priorities_of(td_errors, count, priorities))
            return false;
        run(count >= release_from_lines_,
            [&] { replay_.update(data<int64_t>(rows), priorities.data(), count); });
        return true;
    }

    // (B,) float64, or None.
    nb::object priorities(nb::handle indices) const {
        PyArrayObject *rows = vector_of(indices, NPY_INT64);
        if (!rows || !in_range(data<int64_t>(rows), PyArray_SIZE(rows), replay_.taken()))
            return nb::none();
        nb::object out = new_vector(PyArray_SIZE(rows), NPY_DOUBLE);
        replay_.priorities(data<int64_t>(rows), PyArray_SIZE(rows), data<double>(out));
        return out;
    }

    bool restore(int64_t size, int64_t cursor, double max_priority, int64_t samples_drawn,
                 nb::handle priorities) {
        PyArrayObject *values = vector_of(priorities, NPY_DOUBLE);
        if (!values || PyArray_SIZE(values) != replay_.capacity() ||
            !within(data<double>(values), PyArray_SIZE(values), priority_max_))
            return false;
        replay_.restore(size, cursor, max_priority, data<double>(values));
        samples_drawn_ = samples_drawn;
        return true;
    }

  private:
    static constexpr size_t line_bytes = 64;

    static std::vector<Field> fields_of(const nb::dict &columns) {
        std::vector<Field> fields;
        for (auto [name, array] : columns) {
            auto *rows = reinterpret_cast<PyArrayObject *>(array.ptr());
            if (!PyArray_CheckExact(array.ptr()) || PyArray_NDIM(rows) < 1 ||
                !PyArray_IS_C_CONTIGUOUS(rows) || !PyArray_ISWRITEABLE(rows))
                throw nb::type_error("columns: allowed: writeable C-contiguous arrays (capacity, ...)");
            fields.push_back({nb::borrow(name), nb::borrow(array)});
        }
        if (fields.size() > columns_max)
            throw nb::value_error("columns: allowed: at most 64");
        return fields;
    }
    static std::vector<Column> views_of(const std::vector<Field> &fields) {
        std::vector<Column> views;
        for (const Field &field : fields)
            views.push_back({PyArray_BYTES(field.rows()), field.row_bytes()});
        return views;
    }
    static size_t lines_of(const std::vector<Field> &fields) {
        size_t lines = 0;
        for (const Field &field : fields)
            lines += field.row_bytes() / line_bytes + 1;
        return lines;
    }

    bool is_long(npy_intp count) const { return count * int64_t(lines_per_item_) >= release_from_lines_; }

    template <typename Work>
    static void run(bool release_gil, Work work) {
        if (release_gil) {
            nb::gil_scoped_release free;
            work();
        } else {
            work();
        }
    }

    nb::object empty(npy_intp count) const {
        nb::dict batch;
        for (const Field &field : fields_)
            batch[field.name] = field.empty(count);
        return batch;
    }

    bool outputs(nb::handle batch, npy_intp count, Arrays &out) const {
        if (!PyDict_CheckExact(batch.ptr()) || size_t(PyDict_Size(batch.ptr())) != fields_.size())
            return false;
        for (size_t c = 0; c < fields_.size(); ++c) {
            PyObject *column = PyDict_GetItem(batch.ptr(), fields_[c].name.ptr());
            if (!fields_[c].fits(column, count))
                return false;
            auto *array = reinterpret_cast<PyArrayObject *>(column);
            if (!PyArray_ISWRITEABLE(array))
                return false;
            out.add(array);
        }
        return true;
    }

    // False where they are not `count` TD errors whose priorities the tree can hold.
    bool priorities_of(nb::handle td_errors, npy_intp count, std::vector<double> &priorities) const {
        if (PyArrayObject *floats = vector_of(td_errors, NPY_FLOAT))
            return priorities_of(floats, data<float>(floats), count, priorities);
        if (PyArrayObject *doubles = vector_of(td_errors, NPY_DOUBLE))
            return priorities_of(doubles, data<double>(doubles), count, priorities);
        return false;
    }
    template <typename T>
    bool priorities_of(PyArrayObject *array, const T *td_errors, npy_intp count,
                       std::vector<double> &priorities) const {
        if (PyArray_SIZE(array) != count)
            return false;
        priorities.resize(size_t(count));
        bool finite = true;
        for (npy_intp b = 0; b < count; ++b) {
            finite &= bool(std::isfinite(td_errors[b]));
            priorities[size_t(b)] = replay_.priority_of(double(td_errors[b]));
        }
        return finite && within(priorities.data(), count, priority_max_);
    }

    const std::vector<Field> fields_;
    const double priority_max_;
    const int64_t release_from_lines_;
    const size_t lines_per_item_;
    ConcurrentReplay replay_;
    Sources sources_;
    std::atomic<int64_t> samples_drawn_{0};
};

} // namespace

Parts parts_of(nb::handle replay) { return nb::cast<Replay &>(replay).parts(); }

void bind_replay(nb::module_ &parent) {
    import_numpy();
    nb::module_ m = parent.def_submodule("replay", "Concurrent prioritised replay in C++");
    const auto any = [] { return nb::arg().none(); };
    nb::class_<Replay>(m, "Replay")
        .def(nb::init<nb::dict, int64_t, int, double, double, bool, double, int64_t, int64_t>(),
             nb::arg("columns"), nb::arg("capacity"), nb::arg("fanout"), nb::arg("alpha"), nb::arg("epsilon"),
             nb::arg("normalise"), nb::arg("priority_max"), nb::arg("release_from_lines"),
             nb::arg("running_sums_max"))
        .def_prop_ro("size", &Replay::size)
        .def_prop_ro("taken", &Replay::taken)
        .def_prop_ro("cursor", &Replay::cursor)
        .def_prop_ro("max_priority", &Replay::max_priority)
        .def_prop_ro("samples_drawn", &Replay::samples_drawn)
        .def("freeze", &Replay::freeze)
        .def("thaw", &Replay::thaw)
        .def("insert", &Replay::insert, any(), any())
        .def("sample", &Replay::sample, any(), any(), any(), nb::arg(), any(), any(), any())
        .def("gather", &Replay::gather, any(), any())
        .def("update", &Replay::update, any(), any())
        .def("priorities", &Replay::priorities, any())
        .def("restore", &Replay::restore, nb::arg(), nb::arg(), nb::arg(), nb::arg(), any());
}

} // namespace placerl::replay
