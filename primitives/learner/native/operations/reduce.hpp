// Sums, maxima and minima over dimensions.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "learner/native/kernels.hpp"
#include "learner/native/memory.hpp"
#include "learner/native/ranges.hpp"

namespace placerl::learner {

enum class Reduction : int { sum, max, min };

// y = reduction of x over the dimensions `over`; `shape` are the ones that stay.
struct Reduce {
    Reduction reduction;
    const float *x;
    float *y;
    std::vector<long> shape, x_strides, y_strides;
    std::vector<long> over, over_strides;
    enum class Form { rows, all, general } form;

    void choose_form() {
        const bool contiguous = over.size() == 1 && over_strides[0] == 1;
        const bool columns = !shape.empty() && x_strides.back() == 1 && y_strides.back() == 1;
        form = over.size() == 1 && columns ? Form::rows : contiguous ? Form::all : Form::general;
    }

    void run(const Kernels &kernels) const {
        const int which = static_cast<int>(reduction);
        if (form == Form::rows) {
            const ReduceRowsFunction functions[] = {kernels.sum_rows, kernels.max_rows, kernels.min_rows};
            const std::vector<long> outer(shape.begin(), shape.end() - 1);
            walk(outer.size(), [&](long from, long to) {
                functions[which](x + from, over_strides[0], static_cast<int>(over[0]),
                                 static_cast<int>(shape.back()), y + to);
            });
            return;
        }
        const ReduceFunction functions[] = {kernels.sum, kernels.max, kernels.min};
        if (form == Form::all) {
            walk(shape.size(), [&](long from, long to) { y[to] = functions[which](x + from, over[0]); });
            return;
        }
        long total = 1;
        for (const long size : over)
            total *= size;
        walk(shape.size(), [&](long from, long to) {
            float result = which == 0 ? 0.0f : which == 1 ? -HUGE_VALF : HUGE_VALF;
            for_runs(over, over_strides, 0, total, [&](long, long run, long offset) {
                for (long i = 0; i < run; ++i) {
                    const float value = x[from + offset + i * over_strides.back()];
                    if (which == 0)
                        result += value;
                    else if (value != value || (which == 1 ? value > result : value < result))
                        result = value; // a NaN stays: no comparison with it is true
                }
            });
            y[to] = result;
        });
    }

    // About how long it takes on one core.
    double cost_ns() const {
        double elements = 1;
        for (const auto *sizes : {&shape, &over})
            for (const long size : *sizes)
                elements *= static_cast<double>(size);
        const bool vectors = form == Form::all || (form == Form::rows && reduction == Reduction::sum);
        return elements * (vectors ? 0.1 : 1.0);
    }

    // The reduction in at most so many parts of what stays: along its longest dimension.
    std::vector<Reduce> split(int parts) const {
        if (shape.empty())
            return {*this};
        const auto longest =
            static_cast<std::size_t>(std::max_element(shape.begin(), shape.end()) - shape.begin());
        const bool whole_lines = longest == shape.size() - 1; // no line of y is written by two threads
        std::vector<Reduce> made;
        for (const auto &[first, size] : ranges(shape[longest], whole_lines ? 16 : 1, parts)) {
            Reduce part = *this;
            part.shape[longest] = size;
            part.x += first * x_strides[longest];
            part.y += first * y_strides[longest];
            made.push_back(std::move(part));
        }
        return made;
    }

  private:
    // visit(offset in x, offset in y) for every index of the first `dimensions` that stay.
    template <typename Visit>
    void walk(std::size_t dimensions, Visit visit) const {
        long index[MAXIMUM_DIMENSIONS] = {};
        long from = 0, to = 0;
        for (;;) {
            visit(from, to);
            int i = static_cast<int>(dimensions) - 1;
            for (; i >= 0; --i) {
                from += x_strides[i], to += y_strides[i];
                if (++index[i] < shape[i])
                    break;
                from -= shape[i] * x_strides[i], to -= shape[i] * y_strides[i];
                index[i] = 0;
            }
            if (i < 0)
                return;
        }
    }
};

} // namespace placerl::learner
