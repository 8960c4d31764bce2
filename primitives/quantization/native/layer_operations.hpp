// What a step graph does beside products and general element-wise programs, as operations on dense arrays.
// Arrays are given by their address; whoever makes an operation keeps its arrays where they are.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "learner/native/ranges.hpp"
#include "quantization/native/exact_sum.hpp"
#include "quantization/native/kernels.hpp"
#include "quantization/native/operation.hpp"

namespace placerl::quantization {

// Copies of an operation, each changed to do a range of what it does `count` of.
template <typename Kind, typename Change>
inline Parts by_ranges(const Kind &whole, long count, int parts, Change change, long unit = 1) {
    Parts made;
    for (const learner::Range &range : learner::ranges(count, unit, parts)) {
        auto part = std::make_shared<Kind>(whole);
        change(*part, range);
        made.push_back(std::move(part));
    }
    return made;
}

// One number for each column, with `places` more fraction bits than what it is added to, rounded to those of
// that.
class Bias {
  public:
    Bias(const int32_t *from, long columns, int places)
        : from_(from), places_(places), rounded_(static_cast<size_t>(columns)) {}

    const int32_t *rounded() {
        for (size_t i = 0; i < rounded_.size(); ++i)
            rounded_[i] = places_ ? (from_[i] >> places_) + (from_[i] >> (places_ - 1) & 1) : from_[i];
        return rounded_.data();
    }
    // The largest magnitude of the last rounding.
    int64_t magnitude() const {
        int64_t most = 0;
        for (const int64_t one : rounded_)
            most = std::max(most, std::abs(one));
        return most;
    }

  private:
    const int32_t *from_;
    int places_;
    std::vector<int32_t> rounded_;
};

// y = saturate(max(0, x + bias)) of dense rows.
class AddRectify : public Operation {
  public:
    AddRectify(const Kernels *kernels, int32_t *y, const int32_t *x, const int32_t *bias, long rows,
               long columns, int places, int32_t highest)
        : Operation(1), kernels_(kernels), y_(y), x_(x), bias_(bias, columns, places), rows_(rows),
          columns_(columns), highest_(highest) {}

    void run() override {
        const int32_t *bias = bias_.rounded();
        saturated[0] = 0;
        for (long i = 0; i < rows_ * columns_; i += columns_)
            saturated[0] += kernels_->add_rectify(y_ + i, x_ + i, bias, columns_, highest_);
    }

    double cost_ns() const override { return 0.3 * static_cast<double>(rows_ * columns_); }

  protected:
    Parts split(int parts) const override {
        return by_ranges(*this, rows_, parts, [&](AddRectify &part, learner::Range range) {
            part.rows_ = range.size;
            part.y_ += range.first * columns_, part.x_ += range.first * columns_;
        });
    }

  private:
    const Kernels *kernels_;
    int32_t *y_;
    const int32_t *x_;
    Bias bias_;
    long rows_, columns_;
    int32_t highest_;
};

// ReLU's derivative of dense rows: y = g where x + bias is positive, else 0. `bias` may be null.
class Mask : public Operation {
  public:
    Mask(const Kernels *kernels, int32_t *y, const int32_t *x, const int32_t *bias, const int32_t *g,
         long rows, long columns, int places)
        : Operation(0), kernels_(kernels), y_(y), x_(x), bias_(bias), g_(g), size_(rows * columns),
          line_(bias ? columns : size_), places_(places) {}

    void run() override {
        for (long i = 0; i < size_; i += line_) // without a bias, one line of all
            kernels_->mask(y_ + i, x_ + i, bias_, g_ + i, line_, places_);
    }

    double cost_ns() const override { return 0.3 * static_cast<double>(size_); }

  protected:
    Parts split(int parts) const override {
        const long unit = bias_ ? line_ : 1;
        return by_ranges(*this, size_ / unit, parts, [&](Mask &part, learner::Range range) {
            const long first = range.first * unit;
            part.y_ += first, part.x_ += first, part.g_ += first;
            part.size_ = range.size * unit;
            part.line_ = bias_ ? line_ : part.size_;
        });
    }

  private:
    const Kernels *kernels_;
    int32_t *y_;
    const int32_t *x_, *bias_, *g_;
    long size_, line_;
    int places_;
};

// Sums over the rows, over 2^places, rounded.
class SumRows : public Operation {
  public:
    SumRows(const Kernels *kernels, const int32_t *x, long row, long rows, long columns, Rounding target)
        : Operation(1), kernels_(kernels), x_(x), row_(row), rows_(rows), columns_(columns), target_(target) {
    }

    void run() override { saturated[0] = kernels_->sum_rows(x_, row_, rows_, columns_, target_); }

    double cost_ns() const override { return 0.15 * static_cast<double>(rows_ * columns_); }

  protected:
    Parts split(int parts) const override {
        return by_ranges(
            *this, columns_, parts,
            [&](SumRows &part, learner::Range range) {
                part.columns_ = range.size;
                part.x_ += range.first, part.target_.c += range.first * target_.c_column;
            },
            16);
    }

  private:
    const Kernels *kernels_;
    const int32_t *x_;
    long row_, rows_, columns_;
    Rounding target_;
};

// The sum of fixed-point numbers, of which 1 stands for `step`, exact but for its rounding to binary64.
class SumWhole : public Operation {
  public:
    SumWhole(double *y, const int32_t *x, long n, double step)
        : Operation(0), y_(y), x_(x), n_(n), step_(step) {}

    void run() override {
        int64_t total = 0;
        for (long i = 0; i < n_; ++i)
            total += x_[i];
        *y_ = static_cast<double>(total) * step_;
    }

  private:
    double *y_;
    const int32_t *x_;
    long n_;
    double step_;
};

// The correctly rounded sum of binary64 numbers.
class SumExactly : public Operation {
  public:
    SumExactly(double *y, const double *x, long n) : Operation(0), y_(y), x_(x), n_(n) {}

    void run() override { *y_ = sum_exactly(x_, n_); }

  private:
    double *y_;
    const double *x_;
    long n_;
};

// Adam, and Polyak averaging where there is a target; parameters and targets are counted apart.
class Adam : public Operation {
  public:
    Adam(const Kernels *kernels, AdamUpdate update, long n)
        : Operation(update.target ? 2 : 1), kernels_(kernels), update_(update), n_(n) {}

    void run() override {
        int64_t parameters = 0, targets = 0;
        kernels_->adam(update_, n_, &parameters, &targets);
        saturated[0] = parameters;
        if (update_.target)
            saturated[1] = targets;
    }

    double cost_ns() const override { return 1.5 * static_cast<double>(n_); }

  protected:
    Parts split(int parts) const override {
        return by_ranges(
            *this, n_, parts,
            [&](Adam &part, learner::Range range) {
                AdamUpdate &u = part.update_;
                part.n_ = range.size;
                u.parameter += range.first, u.gradient += range.first;
                u.mean += range.first, u.square += range.first;
                u.target = u.target ? u.target + range.first : nullptr;
            },
            64);
    }

  private:
    const Kernels *kernels_;
    AdamUpdate update_;
    long n_;
};

} // namespace placerl::quantization
