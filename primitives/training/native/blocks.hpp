// Weights of a learner as Python has them: views of its arena.
#pragma once

#include "native/numpy.hpp"

#include <vector>

#include "training/native/mailbox.hpp"

namespace placerl::training {
namespace {

namespace nb = nanobind;

std::vector<Block> blocks_of(const nb::list &arrays) {
    std::vector<Block> blocks;
    for (nb::handle object : arrays) {
        auto *array = reinterpret_cast<PyArrayObject *>(object.ptr());
        if (!PyArray_Check(object.ptr()) || PyArray_TYPE(array) != NPY_FLOAT32 || PyArray_NDIM(array) > 2)
            throw nb::type_error("weights: allowed: float32 matrices and vectors");
        const int dimensions = PyArray_NDIM(array);
        const auto stride = [&](int axis) {
            return int64_t(PyArray_STRIDE(array, axis)) / int64_t(sizeof(float));
        };
        if (dimensions == 2)
            blocks.push_back({numpy::data<float>(array), PyArray_DIM(array, 0), PyArray_DIM(array, 1),
                              stride(0), stride(1)});
        else
            blocks.push_back({numpy::data<float>(array), 1, PyArray_SIZE(array), PyArray_SIZE(array),
                              dimensions ? stride(0) : 1});
    }
    return blocks;
}

} // namespace
} // namespace placerl::training
