// Sums, maxima and minima over dimensions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "learner/native/kernels.hpp"
#include "learner/native/memory.hpp"
#include "learner/native/ranges.hpp"

namespace placerl::learner {

enum class Reduction : int { sum, max, min };

// y = reduction of x over the dimensions `over`; `shape` are the ones that stay. The numbers are float32, or
// int64 in a sum.
struct Reduce {
    Reduction reduction;
    StridedView x, y; // of one type; their strides are those of the dimensions that stay
    std::vector<long> shape;
    std::vector<long> over, over_strides;
    enum class Form { rows, all, general } form;

    void choose_form() {
        const bool one = x.type == Type::float32 && over.size() == 1; // the kernels reduce floats
        const bool columns = one && !shape.empty() && x.strides.back() == 1 && y.strides.back() == 1;
        form = columns ? Form::rows : one && over_strides[0] == 1 ? Form::all : Form::general;
    }

    void run(const Kernels &kernels) const {
        if (x.type == Type::int64) {
            run_general<std::int64_t>(0, [](std::int64_t &total, std::int64_t value) { total += value; });
            return;
        }
        const int which = static_cast<int>(reduction);
        const auto *in = reinterpret_cast<const float *>(x.data);
        auto *out = reinterpret_cast<float *>(y.data);
        if (form == Form::rows) {
            const ReduceRowsFunction functions[] = {kernels.sum_rows, kernels.max_rows, kernels.min_rows};
            const std::vector<long> outer(shape.begin(), shape.end() - 1);
            walk(outer.size(), [&](long from, long to) {
                functions[which](in + from, over_strides[0], static_cast<int>(over[0]),
                                 static_cast<int>(shape.back()), out + to);
            });
            return;
        }
        const ReduceFunction functions[] = {kernels.sum, kernels.max, kernels.min};
        if (form == Form::all) {
            walk(shape.size(), [&](long from, long to) { out[to] = functions[which](in + from, over[0]); });
            return;
        }
        const float start = which == 0 ? 0.0f : which == 1 ? -HUGE_VALF : HUGE_VALF;
        run_general<float>(start, [which](float &result, float value) {
            if (which == 0)
                result += value;
            else if (value != value || (which == 1 ? value > result : value < result))
                result = value; // a NaN stays: no comparison with it is true
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
            for (StridedView *view : {&part.x, &part.y})
                view->data += first * view->strides[longest] * static_cast<long>(item_bytes(view->type));
            made.push_back(std::move(part));
        }
        return made;
    }

  private:
    // combine(result so far, element of x) for one element after the other.
    template <typename Number, typename Combine>
    void run_general(Number start, Combine combine) const {
        const auto *numbers = reinterpret_cast<const Number *>(x.data);
        auto *results = reinterpret_cast<Number *>(y.data);
        long total = 1;
        for (const long size : over)
            total *= size;
        walk(shape.size(), [&](long from, long to) {
            Number result = start;
            for_runs(over, over_strides, 0, total, [&](long, long run, long offset) {
                for (long i = 0; i < run; ++i)
                    combine(result, numbers[from + offset + i * over_strides.back()]);
            });
            results[to] = result;
        });
    }

    // visit(offset in x, offset in y) for every index of the first `dimensions` that stay.
    template <typename Visit>
    void walk(std::size_t dimensions, Visit visit) const {
        long index[MAXIMUM_DIMENSIONS] = {};
        long from = 0, to = 0;
        for (;;) {
            visit(from, to);
            int i = static_cast<int>(dimensions) - 1;
            for (; i >= 0; --i) {
                from += x.strides[i], to += y.strides[i];
                if (++index[i] < shape[i])
                    break;
                from -= shape[i] * x.strides[i], to -= shape[i] * y.strides[i];
                index[i] = 0;
            }
            if (i < 0)
                return;
        }
    }
};

} // namespace placerl::learner
