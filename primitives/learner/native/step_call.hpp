// One gradient step as Python calls it: on a dict of NumPy arrays, checked and copied in one pass, with what
// `Learner.step` returns made here too, so that a step on a small network costs little more than its
// arithmetic.
#pragma once

#include "native/numpy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "learner/native/program.hpp"

namespace placerl::learner {
namespace {

namespace nb = nanobind;

inline int numpy_type_of(Type type) {
    constexpr int numbers[] = {NPY_FLOAT32, NPY_INT32, NPY_INT64, NPY_BOOL, NPY_UINT8, NPY_FLOAT64};
    return numbers[static_cast<int>(type)];
}

// `object` as a contiguous array of `bytes` bytes.
[[maybe_unused]] PyArrayObject *checked_array(nb::handle object, std::size_t bytes, std::size_t position,
                                              const char *which) {
    auto *array = reinterpret_cast<PyArrayObject *>(object.ptr());
    if (!PyArray_Check(object.ptr()) || !PyArray_IS_C_CONTIGUOUS(array) ||
        static_cast<std::size_t>(PyArray_NBYTES(array)) != bytes)
        throw nb::value_error((std::string(which) + " " + std::to_string(position) +
                               ": found something else than a contiguous array of " + std::to_string(bytes) +
                               " bytes")
                                  .c_str());
    return array;
}

class StepCall {
  public:
    enum class Check : int { none, finite, not_negative, in_unit, below_limit };

    // What a column has to be: name, dtype, shape, may be bool, check, limit.
    using RuleArguments = std::tuple<std::string, Type, std::vector<npy_intp>, bool, Check, std::int64_t>;
    // What the program gives: name, shape; empty for a loss, which is one number.
    using OutputArguments = std::tuple<std::string, std::vector<npy_intp>>;

    // rules: for the first inputs of the program, in order; the inputs after them are draws. outputs: in the
    // program's order; the TD errors are the one called `td_error`. outcome: a named tuple of TD errors and
    // losses.
    StepCall(Executor &executor, int program, const std::vector<RuleArguments> &rules,
             const std::vector<OutputArguments> &outputs, nb::object outcome)
        : executor_(executor), program_(program), outcome_(std::move(outcome)) {
        for (const auto &[name, type, shape, may_be_bool, check, limit] : rules)
            rules_.push_back(
                {interned(name), numpy_type_of(type), shape, may_be_bool, check, limit, name == "weight"});
        for (const Rule &rule : rules_)
            columns_ += !rule.is_weight;
        for (const auto &[name, shape] : outputs) {
            is_td_error_.push_back(name == "td_error");
            names_.push_back(interned(name));
            if (name == "td_error")
                td_shape_ = shape;
        }
    }

    // The outcome of a step on the batch; None, with the state as it was, where something is not exactly as
    // its rule has it: the caller then converts, or says what is wrong. `draw` writes the draws into their
    // inputs; it is called after all was found right. Throws std::runtime_error while another call uses the
    // executor, and NotFinite after a step whose TD errors or state are not finite.
    nb::object step(nb::handle batch, nb::handle weights, nb::handle draw) {
        const Executor::Claim claim(executor_);
        const auto &program = executor_.program(program_);
        executor_.expect(program);
        if (!load(batch, weights))
            return nb::none();
        if (program.inputs.size() > rules_.size())
            draw();
        {
            nb::gil_scoped_release released;
            executor_.run(program);
        }
        executor_.require_finite(program);
        return outcome(program);
    }

  private:
    struct Rule {
        nb::object name;
        int numpy_type;
        std::vector<npy_intp> shape;
        bool may_be_bool;
        Check check;
        std::int64_t limit;
        bool is_weight;
    };

    static nb::object interned(const std::string &name) {
        return nb::steal(PyUnicode_InternFromString(name.c_str()));
    }

    static nb::object checked(PyObject *made) {
        if (!made)
            nb::raise_python_error();
        return nb::steal(made);
    }

    bool load(nb::handle batch, nb::handle weights) const {
        // With as many columns as are read, none is left over.
        if (!PyDict_CheckExact(batch.ptr()) || PyDict_GET_SIZE(batch.ptr()) != columns_)
            return false;
        const auto &program = executor_.program(program_);
        bool weights_are_used = false;
        for (std::size_t i = 0; i < rules_.size(); ++i) {
            const Rule &rule = rules_[i];
            const Transfer &input = program.inputs.at(i);
            if (rule.is_weight && weights.is_none()) {
                auto *floats = reinterpret_cast<float *>(input.place);
                std::fill(floats, floats + input.bytes / sizeof(float), 1.0f);
                continue;
            }
            weights_are_used |= rule.is_weight;
            PyObject *array =
                rule.is_weight ? weights.ptr() : PyDict_GetItemWithError(batch.ptr(), rule.name.ptr());
            if (!array || !load_column(array, rule, input))
                return false;
        }
        return weights.is_none() || weights_are_used;
    }

    bool load_column(PyObject *object, const Rule &rule, const Transfer &input) const {
        if (!PyArray_CheckExact(object))
            return false;
        auto *array = reinterpret_cast<PyArrayObject *>(object);
        const bool is_bool = rule.may_be_bool && PyArray_TYPE(array) == NPY_BOOL;
        if ((PyArray_TYPE(array) != rule.numpy_type && !is_bool) || !PyArray_ISCARRAY_RO(array) ||
            static_cast<std::size_t>(PyArray_NDIM(array)) != rule.shape.size() ||
            !std::equal(rule.shape.begin(), rule.shape.end(), PyArray_DIMS(array)))
            return false;
        const auto *data = static_cast<const std::byte *>(PyArray_DATA(array));
        auto *floats = reinterpret_cast<float *>(input.place);
        const auto count = static_cast<long>(PyArray_SIZE(array));
        if (is_bool) {
            for (long i = 0; i < count; ++i)
                floats[i] = data[i] == std::byte{0} ? 0.0f : 1.0f;
            return true;
        }
        std::memcpy(input.place, data, input.bytes);
        switch (rule.check) {
        case Check::none:
            return true;
        case Check::finite:
            return executor_.kernels().all_finite(floats, count);
        case Check::not_negative:
            return executor_.kernels().all_finite(floats, count) &&
                   executor_.kernels().min(floats, count) >= 0;
        case Check::in_unit:
            return all_in_unit(floats, count);
        default:
            return all_below(reinterpret_cast<const std::int64_t *>(input.place), count, rule.limit);
        }
    }

    nb::object outcome(const Executor::Program &program) const {
        nb::object td_errors, losses = checked(PyDict_New());
        for (std::size_t i = 0; i < program.outputs.size(); ++i) {
            const Transfer &output = program.outputs[i];
            if (is_td_error_[i]) {
                td_errors = checked(
                    PyArray_SimpleNew(static_cast<int>(td_shape_.size()), td_shape_.data(), NPY_FLOAT32));
                std::memcpy(numpy::data<std::byte>(td_errors), output.place, output.bytes);
                continue;
            }
            const nb::object loss =
                checked(PyFloat_FromDouble(static_cast<double>(read_element(output.place, output.type))));
            if (PyDict_SetItem(losses.ptr(), names_[i].ptr(), loss.ptr()) < 0)
                nb::raise_python_error();
        }
        // As `outcome_._make` does it, without the call of Python that the class itself would be.
        const nb::object members = nb::make_tuple(td_errors, losses);
        const nb::object arguments = nb::make_tuple(members);
        return checked(
            PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject *>(outcome_.ptr()), arguments.ptr(), nullptr));
    }

    Executor &executor_;
    int program_;
    std::vector<Rule> rules_;
    nb::object outcome_;
    Py_ssize_t columns_ = 0; // of a batch
    std::vector<nb::object> names_;
    std::vector<bool> is_td_error_;
    mutable std::vector<npy_intp> td_shape_;
};

} // namespace
} // namespace placerl::learner
