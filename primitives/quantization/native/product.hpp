// A matrix product of a fixed-point step graph, as an object that is made once and run at every step. Arrays
// are given by their address, strides in elements; whoever makes an object keeps its arrays where they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "quantization/native/digit_plan.hpp"
#include "quantization/native/kernels.hpp"

namespace placerl::quantization {

// One operand.
struct Matrix {
    const int32_t *data = nullptr;
    int rows = 0, columns = 0;
    long row = 0, column = 0;
};

// How an operand is read: as it is, or as centred codes of an n-bit rule.
struct Reading {
    bool coded = false;
    double factor = 0, lowest = 0, highest = 0;
};

// An operand line by line along its own memory, and what products read of it.
class Source {
  public:
    // The depth runs along A's rows and B's columns: `depth_in_rows` is true of A.
    Source(const Kernels *kernels, Matrix m, bool depth_in_rows) : kernels_(kernels), m_(m) {
        by_rows_ = m.column == 1 || (m.columns == 1 && m.row != 1);
        lines_ = by_rows_ ? m.rows : m.columns, length_ = by_rows_ ? m.columns : m.rows;
        stride_ = by_rows_ ? m.row : m.column, step_ = by_rows_ ? m.column : m.row;
        along_depth_ = by_rows_ == depth_in_rows;
        padded_ = (length_ + 31) & ~31L;
    }

    // What the range of the integers is that products read.
    Extremes extremes(const Reading &reading) {
        if (reading.coded) // codes' extremes are their rule's
            return {std::min(0, static_cast<int32_t>(reading.lowest)),
                    std::max(0, static_cast<int32_t>(reading.highest))};
        Extremes found;
        if (step_ == 1 && stride_ == length_)
            kernels_->extremes(m_.data, lines_ * length_, &found.low, &found.high);
        else
            for (long i = 0; i < lines_; ++i)
                kernels_->extremes(line(i), length_, &found.low, &found.high);
        return found;
    }

    // In digits, valid until the next call; adds the codes that saturate.
    Digits digits(const Reading &reading, int count, int bits, int32_t offset, int64_t &saturated) {
        const long plane = (lines_ + 1) * padded_;
        if (const auto size = static_cast<size_t>(plane) * count; planes_.size() < size)
            planes_.resize(size); // zeros: what is behind the ends of lines stays so
        for (long i = 0; i < lines_; ++i) {
            int16_t *target = planes_.data() + i * padded_;
            if (reading.coded && count == 1) {
                saturated += kernels_->short_codes(line(i), target, length_, reading.factor,
                                                   static_cast<int32_t>(reading.lowest),
                                                   static_cast<int32_t>(reading.highest), offset);
                continue;
            }
            const int32_t *x = line(i);
            if (reading.coded) {
                codes_.resize(static_cast<size_t>(length_));
                saturated += kernels_->codes(x, codes_.data(), length_, reading.factor, reading.lowest,
                                             reading.highest);
                x = codes_.data();
            }
            kernels_->split(x, length_, offset, count, bits, target, plane);
        }
        return {planes_.data(), plane, padded_, count, bits, along_depth_, offset};
    }

    // As integers of 32 bits, valid until the next call; adds the codes that saturate.
    Matrix whole(const Reading &reading, int64_t &saturated) {
        if (!reading.coded)
            return m_;
        codes_.resize(static_cast<size_t>(lines_ * length_));
        for (long i = 0; i < lines_; ++i)
            saturated += kernels_->codes(line(i), codes_.data() + i * length_, length_, reading.factor,
                                         reading.lowest, reading.highest);
        return {codes_.data(), m_.rows, m_.columns, by_rows_ ? length_ : 1, by_rows_ ? 1 : length_};
    }

  private:
    const int32_t *line(long i) {
        const int32_t *x = m_.data + i * stride_;
        if (step_ == 1 || length_ == 1)
            return x;
        line_.resize(static_cast<size_t>(length_));
        for (long j = 0; j < length_; ++j)
            line_[static_cast<size_t>(j)] = x[j * step_];
        return line_.data();
    }

    const Kernels *kernels_;
    Matrix m_;
    bool by_rows_, along_depth_;
    long lines_, length_, stride_, step_, padded_;
    std::vector<int16_t> planes_;
    std::vector<int32_t> codes_, line_;
};

class Product {
  public:
    Product(const Kernels *kernels, Matrix a, Matrix b, Rounding target)
        : kernels_(kernels), rows_(a.rows), columns_(b.columns), depth_(a.columns), a_(kernels, a, true),
          b_(kernels, b, false), target_(target) {}

    // Whether it ran: not where 64 bits might not hold the sums. The result is the sum x factor, which is
    // 2^-places where it is not `scaled`.
    bool run(const Reading &a_reading, const Reading &b_reading, bool scaled, int places, double factor) {
        saturated[0] = saturated[1] = saturated[2] = 0;
        extremes[0] = a_.extremes(a_reading), extremes[1] = b_.extremes(b_reading);
        const Extremes &a = extremes[0], &b = extremes[1];
        Rounding rounding = target_;
        rounding.scaled = scaled, rounding.places = places, rounding.factor = factor;
        const double largest = double(a.magnitude()) * double(b.magnitude()) * depth_;
        plan = plan_digits(a, b, depth_);
        if (plan.a) {
            DigitProduct p{rows_, columns_, depth_, {}, {}, {}, false};
            p.a = a_.digits(a_reading, plan.a, plan.a_bits, plan.a == 1 ? a.offset() : 0, saturated[0]);
            p.b = b_.digits(b_reading, plan.b, plan.b_bits, plan.b == 1 ? b.offset() : 0, saturated[1]);
            std::copy_n(&plan.block[0][0], Digits::MOST * Digits::MOST, &p.block[0][0]);
            const double limit = double(std::min<int64_t>(target_.highest, 1 << 30));
            p.within = largest * factor + 1 < limit;
            reserve(digit_workspace(p));
            saturated[2] = kernels_->multiply_digits(p, rounding, workspace_.data());
            return true;
        }
        if (largest > 9.2e18)
            return false;
        const Matrix left = a_.whole(a_reading, saturated[0]), right = b_.whole(b_reading, saturated[1]);
        const MatrixProduct p{rows_,       columns_,   depth_,    left.data,   left.row,
                              left.column, right.data, right.row, right.column};
        reserve(wide_workspace(p));
        saturated[2] = kernels_->multiply_wide(p, rounding, workspace_.data());
        return true;
    }

    int64_t saturated[3] = {}; // codes of A, codes of B, results
    Extremes extremes[2];      // of A and B as products read them
    DigitPlan plan;

  private:
    void reserve(long size) {
        if (workspace_.size() < static_cast<size_t>(size))
            workspace_.resize(static_cast<size_t>(size));
    }

    const Kernels *kernels_;
    int rows_, columns_, depth_;
    Source a_, b_;
    Rounding target_;
    std::vector<int32_t> workspace_;
};

} // namespace placerl::quantization
