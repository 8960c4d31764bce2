// Sums, maxima and minima of fixed-point step graphs over any dimensions, and where the extremes are.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "learner/native/ranges.hpp"
#include "quantization/native/exact_sum.hpp"
#include "quantization/native/numbers.hpp"
#include "quantization/native/operation.hpp"

namespace placerl::quantization {

enum class Reduction : int { sum, max, min };

// y = reduction of x over the dimensions `over`; `shape` are those that stay. Sums of fixed-point and of
// whole numbers are exact; those of floats are correctly rounded.
class Reduce : public Operation {
  public:
    // x: strides along `shape`; `over_strides` those along `over`.
    Reduce(Reduction reduction, std::vector<long> shape, Numbers x, Numbers y, std::vector<long> over,
           std::vector<long> over_strides, Conversion as)
        : Operation(1), reduction_(reduction), shape_(std::move(shape)), over_(std::move(over)),
          over_strides_(std::move(over_strides)), x_(std::move(x)), y_(std::move(y)), as_(as) {
        if (is_float(x_.kind) && reduction == Reduction::sum)
            terms_.reserve(static_cast<size_t>(product_of(over_)));
    }

    void run() override {
        int64_t out_of_format = 0;
        for_indices<2>(shape_, {&x_.strides, &y_.strides}, [&](const auto &offsets) {
            const auto [from, to] = offsets;
            if (!is_float(x_.kind))
                out_of_format += as_.store(y_, to, whole(from));
            else
                out_of_format += as_.store(y_, to, reduction_ == Reduction::sum ? sum(from) : extreme(from));
        });
        saturated[0] = out_of_format;
    }

    double cost_ns() const override {
        return static_cast<double>(product_of(shape_)) * (3 + 2 * static_cast<double>(product_of(over_)));
    }

  protected:
    Parts split(int parts) const override {
        Parts made;
        if (shape_.empty())
            return made;
        for (const auto &[first, size] : learner::ranges(shape_[0], 16, parts)) {
            auto part = std::make_shared<Reduce>(*this);
            part->shape_[0] = size;
            part->x_.data = x_.at(first * x_.strides[0]);
            part->y_.data = y_.at(first * y_.strides[0]);
            made.push_back(std::move(part));
        }
        return made;
    }

  private:
    template <typename Visit>
    void each(long from, Visit visit) const {
        for_indices<1>(over_, {&over_strides_}, [&](const auto &offsets) { visit(from + offsets[0]); });
    }

    int64_t whole(long from) const {
        int64_t result = reduction_ == Reduction::sum   ? 0
                         : reduction_ == Reduction::max ? std::numeric_limits<int64_t>::min()
                                                        : std::numeric_limits<int64_t>::max();
        each(from, [&](long at) {
            const int64_t value = x_.whole(at);
            result = reduction_ == Reduction::sum   ? result + value
                     : reduction_ == Reduction::max ? std::max(result, value)
                                                    : std::min(result, value);
        });
        return result;
    }

    double sum(long from) {
        terms_.clear();
        each(from, [&](long at) { terms_.push_back(x_.real(at)); });
        return sum_exactly(terms_.data(), static_cast<long>(terms_.size()));
    }

    double extreme(long from) const {
        const bool largest = reduction_ == Reduction::max;
        double result = largest ? -HUGE_VAL : HUGE_VAL;
        each(from, [&](long at) {
            const double value = x_.real(at);
            if (value != value || (largest ? value > result : value < result))
                result = value; // a NaN stays: no comparison with it is true
        });
        return result;
    }

    Reduction reduction_;
    std::vector<long> shape_, over_, over_strides_;
    Numbers x_, y_;
    Conversion as_;
    std::vector<double> terms_;
};

// y = where the first extreme of x along a dimension is; a NaN is one.
class ArgumentReduce : public Operation {
  public:
    // x: strides along `shape`, which the dimension is none of; along it `count` numbers, `step` apart.
    ArgumentReduce(bool largest, std::vector<long> shape, Numbers x, long count, long step, Numbers y)
        : Operation(1), largest_(largest), shape_(std::move(shape)), x_(std::move(x)), y_(std::move(y)),
          count_(count), step_(step) {}

    void run() override {
        for_indices<2>(shape_, {&x_.strides, &y_.strides}, [&](const auto &offsets) {
            const auto [from, to] = offsets;
            Conversion{}.store(y_, to, is_float(x_.kind) ? first_real(from) : first_whole(from));
        });
        saturated[0] = 0;
    }

    double cost_ns() const override {
        return static_cast<double>(product_of(shape_)) * (3 + 2 * static_cast<double>(count_));
    }

  private:
    int64_t first_whole(long from) const {
        int64_t best = 0, record = x_.whole(from);
        for (long i = 1; i < count_; ++i) {
            const int64_t value = x_.whole(from + i * step_);
            if (largest_ ? value > record : value < record)
                best = i, record = value;
        }
        return best;
    }
    int64_t first_real(long from) const {
        int64_t best = 0;
        double record = x_.real(from);
        for (long i = 1; i < count_ && record == record; ++i) {
            const double value = x_.real(from + i * step_);
            if (value != value || (largest_ ? value > record : value < record))
                best = i, record = value;
        }
        return best;
    }

    bool largest_;
    std::vector<long> shape_;
    Numbers x_, y_;
    long count_, step_;
};

} // namespace placerl::quantization
