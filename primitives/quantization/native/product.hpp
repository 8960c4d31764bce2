// A matrix product of a fixed-point step graph, and what follows it on its result. Arrays are given by their
// address, strides in elements; whoever makes an object keeps its arrays and sources where they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "quantization/native/digit_plan.hpp"
#include "quantization/native/kernels.hpp"
#include "quantization/native/layer_operations.hpp"
#include "quantization/native/operation.hpp"
#include "quantization/native/source.hpp"

namespace placerl::quantization {

// One operand.
struct Matrix {
    const int32_t *data = nullptr;
    int rows = 0, columns = 0;
    long row = 0, column = 0;
    bool by_rows = true; // how its source's lines run
    Source *source = nullptr;
    bool fresh = true; // no product before this one read the same numbers

    // A contiguous copy, lines as the source has them.
    Matrix over(const int32_t *copy) const {
        if (!copy)
            return *this;
        Matrix m = *this;
        m.data = copy, m.row = by_rows ? columns : 1, m.column = by_rows ? 1 : rows;
        return m;
    }
};

class Product : public Operation {
  public:
    Product(const Kernels *kernels, Matrix a, Matrix b, Rounding target)
        : Operation(3), kernels_(kernels), a_(a), b_(b), target_(target) {}

    // How operands are read from now on; the result is the sum x factor, which is 2^-places where it is not
    // `scaled`. Not `possible`: never here.
    void read(const Reading &a, const Reading &b, bool possible, bool scaled, int places, double factor) {
        readings_[0] = a, readings_[1] = b;
        possible_ = possible;
        target_.scaled = scaled, target_.places = places, target_.factor = factor;
    }

    // What follows on the result, whose rows are dense: bias and ReLU, or ReLU's derivative by another
    // matrix.
    void then_rectify(const int32_t *bias, int places) { bias_.emplace(bias, b_.columns, places); }
    void then_mask(const int32_t *mask) { then_.mask = mask; }

    // Counts codes of A, codes of B, and results.
    bool run() override {
        extremes[0] = extremes[1] = {};
        saturated.assign(3, 0);
        a_.source->read(readings_[0], a_.fresh), b_.source->read(readings_[1], b_.fresh);
        if (!possible_)
            return false;
        const Extremes a = extremes[0] = a_.source->extremes(), b = extremes[1] = b_.source->extremes();
        const int depth = a_.columns;
        const double largest = double(a.magnitude()) * double(b.magnitude()) * depth;
        plan = plan_digits(a, b, depth);
        if (!plan.a && largest > 9.2e18)
            return false;
        const int64_t terms = int64_t(a_.rows) * depth * b_.columns;
        if (bias_)
            then_.bias = bias_->rounded();
        if (plan.a) {
            narrow_products += 1, narrow_multiply_accumulates += plan.a * plan.b * terms;
            multiply_digits(a, b, largest);
        } else {
            wide_products += 1, wide_multiply_accumulates += terms;
            multiply_wide();
        }
        return true;
    }

    Extremes extremes[2];                           // of A and B as products read them, in the last run
    DigitPlan plan;                                 // of the last run
    int64_t narrow_products = 0, wide_products = 0; // so far, and what they took
    int64_t narrow_multiply_accumulates = 0, wide_multiply_accumulates = 0;

  private:
    void multiply_digits(const Extremes &a, const Extremes &b, double largest) {
        DigitProduct &p = digits_;
        p.rows = a_.rows, p.columns = b_.columns, p.depth = a_.columns;
        p.a =
            a_.source->digits({plan.a, plan.a_bits, plan.a == 1 ? a.offset() : 0}, a_.by_rows, saturated[0]);
        p.b =
            b_.source->digits({plan.b, plan.b_bits, plan.b == 1 ? b.offset() : 0}, !b_.by_rows, saturated[1]);
        // Sums of magnitudes tell most of the operand with the larger ones.
        const bool by_a = plan.a == 1 && (plan.b > 1 || a.magnitude() >= b.magnitude());
        static const std::vector<int64_t> none;
        for (int i = 0; i < plan.a; ++i)
            for (int j = 0; j < plan.b; ++j) {
                const bool known = plan.block[i][j] < p.depth && (plan.a == 1 || plan.b == 1);
                const auto &sums = !known ? none
                                   : by_a ? a_.source->magnitude_sums(p.a)
                                          : b_.source->magnitude_sums(p.b);
                const int64_t other =
                    by_a ? b.digit(plan.b, plan.b_bits, j) : a.digit(plan.a, plan.a_bits, i);
                plan_blocks(p.ends[i][j], p.depth, plan.block[i][j], sums, other);
            }
        constexpr int64_t HALF = 1 << 30;
        const double limit = double(std::min<int64_t>(target_.highest, HALF));
        p.within = largest * target_.factor + 1 < limit && !(bias_ && bias_->magnitude() > HALF);
        reserve(digit_workspace(p));
        saturated[2] = kernels_->multiply_digits(p, target_, then_, workspace_.data());
    }

    void multiply_wide() {
        const Matrix a = a_.over(a_.source->whole(saturated[0])), b = b_.over(b_.source->whole(saturated[1]));
        const MatrixProduct p{a.rows, b.columns, a.columns, a.data, a.row, a.column, b.data, b.row, b.column};
        reserve(wide_workspace(p));
        saturated[2] = kernels_->multiply_wide(p, target_, then_, workspace_.data());
    }

    void reserve(long size) {
        if (workspace_.size() < static_cast<size_t>(size))
            workspace_.resize(static_cast<size_t>(size));
    }

    const Kernels *kernels_;
    Matrix a_, b_;
    Reading readings_[2];
    bool possible_ = false;
    Rounding target_;
    Epilogue then_;
    std::optional<Bias> bias_;
    DigitProduct digits_;
    std::vector<int32_t> workspace_;
};

} // namespace placerl::quantization
