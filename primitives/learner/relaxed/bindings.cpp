// Python's view of relaxed gradient steps; `primitives.learner.relaxed` checks what it passes.
#include "native/numpy.hpp"

#include <algorithm>
#include <cmath>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "learner/fused/bound_steps.hpp"
#include "learner/relaxed/bindings.hpp"
#include "learner/relaxed/steps.hpp"

namespace nb = nanobind;

namespace placerl::relaxed {
namespace {

// `columns`: contiguous arrays (n, ...), one for each of the replay's; `td_errors`: n, or none.
void insert_later(Presampled &batches, const replay::Parts &parts, nb::sequence columns, int64_t count,
                  const std::vector<double> &td_errors) {
    std::vector<double> priorities;
    for (const double td_error : td_errors) {
        priorities.push_back(parts.replay->priority_of(td_error));
        if (!(priorities.back() <= parts.priority_max))
            throw nb::value_error(
                ("td_errors: found a priority above the largest, " + std::to_string(parts.priority_max))
                    .c_str());
    }
    std::vector<const char *> rows;
    std::vector<std::size_t> row_bytes;
    for (nb::handle column : columns)
        rows.push_back(PyArray_BYTES(reinterpret_cast<PyArrayObject *>(column.ptr())));
    for (const replay::Column &column : parts.replay->columns())
        row_bytes.push_back(column.row_bytes);
    nb::gil_scoped_release released;
    batches.insert(rows, row_bytes, count, std::move(priorities));
}

// Seconds so far of sample, update, insert (the manager's thread) and wait (the caller's).
std::tuple<double, double, double, double> seconds_of(Presampled &batches) {
    const Seconds &manager = batches.manager().seconds();
    return {manager.sample, manager.update, manager.insert, batches.wait_s()};
}

// Also made with D, and whether the replay manager has a thread of its own.
class Relaxed : public fused::BoundSteps<Steps> {
  public:
    using BoundSteps::BoundSteps;
    // The manager may wait for a snapshot, whose thread needs the GIL to end it.
    ~Relaxed() {
        nb::gil_scoped_release released;
        steps().batches().manager().end();
    }

    void insert(nb::sequence columns, int64_t count, const std::vector<double> &td_errors) {
        insert_later(steps().batches(), parts(), columns, count, td_errors);
    }
    void drain() {
        nb::gil_scoped_release released;
        steps().batches().manager().drain();
    }
    void bind(int core) { steps().batches().manager().bind(core); }
    std::tuple<double, double, double, double> seconds() { return seconds_of(steps().batches()); }
    double learn_s() { return steps().learn_s(); }
};

// Batches for a learner that is not in C++: the manager's thread never needs the interpreter.
class Managed {
  public:
    Managed(nb::object replay, int64_t batch_size, std::size_t ahead)
        : replay_(replay), parts_(replay::parts_of(replay)),
          batches_(*parts_.replay, batch_size, parts_.priority_max, columns_of(*parts_.replay), &all_finite,
                   ahead, true) {}
    ~Managed() {
        nb::gil_scoped_release released;
        batches_.manager().end();
    }

    // For each place the bytes of each column, the weights, and the TD errors that the learner fills in, as
    // vectors that view the memory of `self`.
    static nb::list places(nb::object self) {
        Presampled &batches = nb::cast<Managed &>(self).batches_;
        nb::list all;
        for (std::size_t place = 0; place < batches.places(); ++place) {
            Batch &batch = batches.at(place);
            nb::list columns;
            for (std::vector<char> &column : batch.columns)
                columns.append(view(self, column.data(), column.size(), NPY_UINT8));
            all.append(
                nb::make_tuple(columns, view(self, batch.weights.data(), batch.weights.size(), NPY_FLOAT32),
                               view(self, batch.td_errors.data(), batch.td_errors.size(), NPY_FLOAT32)));
        }
        return all;
    }

    std::size_t missing() const { return batches_.missing(); }
    // The place of the next batch. `betas`: of the missing ones, which are asked for before.
    std::size_t take(nb::handle rng, const std::vector<double> &betas) {
        if (betas.size() != batches_.missing())
            throw nb::value_error("betas: allowed: one for each missing batch");
        if (!source_.use(rng))
            throw nb::type_error("rng: allowed: numpy.random.Generator");
        std::vector<numpy::Words> words;
        source_.draw([&](bitgen_t *bits) {
            for (std::size_t s = 0; s < betas.size(); ++s)
                words.push_back(numpy::Source::next_words(bits));
        });
        nb::gil_scoped_release released;
        for (std::size_t s = 0; s < betas.size(); ++s) {
            batches_.ask({{words[s].first, words[s].second}}, betas[s]);
            parts_.samples_drawn->fetch_add(1, std::memory_order_relaxed);
        }
        const std::size_t waiting = batches_.waiting();
        if (!batches_.take()) {
            parts_.samples_drawn->fetch_sub(int64_t(waiting), std::memory_order_relaxed);
            throw replay::empty_replay();
        }
        return batches_.last();
    }
    void give_back() {
        nb::gil_scoped_release released; // it may wait for room
        batches_.give_back();
    }
    void wake() { batches_.manager().wake(); }

    void insert(nb::sequence columns, int64_t count, const std::vector<double> &td_errors) {
        insert_later(batches_, parts_, columns, count, td_errors);
    }
    void drain() {
        nb::gil_scoped_release released;
        batches_.manager().drain();
    }
    void bind(int core) { batches_.manager().bind(core); }
    std::tuple<double, double, double, double> seconds() { return seconds_of(batches_); }

  private:
    // As the replay has them: the learner checks its batches itself.
    static std::vector<TakenColumn> columns_of(const replay::ConcurrentReplay &replay) {
        return std::vector<TakenColumn>(replay.columns().size(), {"batch", learner::Type::int64, false, 0});
    }
    static bool all_finite(const float *values, long count) {
        return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
    }
    static nb::object view(nb::handle self, void *memory, std::size_t size, int type) {
        npy_intp length = npy_intp(size);
        PyObject *array = PyArray_SimpleNewFromData(1, &length, type, memory);
        if (!array)
            nb::raise_python_error();
        nb::object owned = nb::steal(array);
        if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(array), self.inc_ref().ptr()) < 0)
            nb::raise_python_error();
        return owned;
    }

    nb::object replay_; // kept alive: the manager works on what is inside
    replay::Parts parts_;
    numpy::Source source_;
    Presampled batches_;
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
        .def_prop_ro("learn_s", &Relaxed::learn_s)
        .def("samples_for", &Relaxed::samples_for)
        .def("run", &Relaxed::run)
        .def("insert", &Relaxed::insert)
        .def("drain", &Relaxed::drain)
        .def("bind", &Relaxed::bind)
        .def_prop_ro("scalars", &Relaxed::scalars);
    nb::class_<Managed>(m, "Managed")
        .def(nb::init<nb::object, int64_t, std::size_t>())
        .def("places", [](nb::object self) { return Managed::places(self); })
        .def_prop_ro("missing", &Managed::missing)
        .def("take", &Managed::take)
        .def("give_back", &Managed::give_back)
        .def("wake", &Managed::wake)
        .def("insert", &Managed::insert)
        .def("drain", &Managed::drain)
        .def("bind", &Managed::bind)
        .def_prop_ro("seconds", &Managed::seconds);
}

} // namespace placerl::relaxed
