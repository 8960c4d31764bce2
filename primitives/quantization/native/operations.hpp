// A fixed-point step graph's nodes as objects that are made once and run at every step. Arrays are given by
// their address, strides in elements; whoever makes an object keeps its arrays where they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "quantization/native/kernels.hpp"

namespace placerl::quantization {

// One operand of a matrix product.
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

class Product {
  public:
    Product(const Kernels *kernels, Matrix a, Matrix b, Rounding target)
        : kernels_(kernels), a_(a), b_(b), target_(target) {}

    // Whether it ran: not where 64 bits might not hold the sums. Counts in `saturated`.
    bool run(const Reading &a_reading, const Reading &b_reading, bool scaled, int places, double factor) {
        saturated[0] = saturated[1] = saturated[2] = 0;
        MatrixProduct p{a_.rows,   b_.columns, a_.columns, a_.data,  a_.row,
                        a_.column, b_.data,    b_.row,     b_.column};
        Extremes a = read(a_, a_reading, a_codes_, saturated[0]);
        Extremes b = read(b_, b_reading, b_codes_, saturated[1]);
        if (a_reading.coded)
            p.a = a_codes_.data(), p.a_row = a.row, p.a_column = a.column;
        if (b_reading.coded)
            p.b = b_codes_.data(), p.b_row = b.row, p.b_column = b.column;
        // Exact as long as the product of the magnitudes is: up to 2^31 x 2^31 x 2^20 in 128 bits' stead.
        const double bound = double(a.magnitude()) * double(b.magnitude()) * p.depth;
        if (bound > 9.2e18)
            return false;
        Rounding rounding = target_;
        rounding.scaled = scaled, rounding.places = places, rounding.factor = factor;
        const int32_t a_offset = a.offset(), b_offset = b.offset();
        const int64_t widest = (int64_t(a.magnitude_less(a_offset)) * b.magnitude_less(b_offset));
        const int64_t block =
            std::min<int64_t>(widest ? 0x7fffffff / widest : p.depth + 1, 1 << 20) & ~int64_t(1);
        const bool narrow = a.narrow() && b.narrow() && block >= NARROW_BLOCK && p.columns >= PANEL_COLUMNS;
        workspace_.resize(std::max(wide_workspace(p), narrow_workspace(p)));
        used_narrow = narrow;
        saturated[2] =
            narrow ? kernels_->multiply_narrow(p, rounding, workspace_.data(), int(block), a_offset, b_offset)
                   : kernels_->multiply_wide(p, rounding, workspace_.data());
        return true;
    }

    int64_t saturated[3] = {}; // codes of A, codes of B, results
    bool used_narrow = false;

  private:
    static constexpr int NARROW_BLOCK = 16; // fewer products between widenings cost more than 32 bits do
    static constexpr int PANEL_COLUMNS = 8;

    struct Extremes {
        int32_t low = 0, high = 0;
        long row = 0, column = 0; // strides of what was read
        int64_t magnitude() const { return std::max(-int64_t(low), int64_t(high)); }
        // What brings all values into 16 bits, where anything does.
        int32_t offset() const { return low < -32768 || high > 32767 ? (int64_t(low) + high + 1) / 2 : 0; }
        bool narrow() const { return int64_t(high) - low <= 65535; }
        int64_t magnitude_less(int32_t offset) const {
            return std::max(std::abs(int64_t(low) - offset), std::abs(int64_t(high) - offset));
        }
    };

    Extremes read(const Matrix &m, const Reading &reading, std::vector<int32_t> &codes, int64_t &saturated) {
        // Along the contiguous dimension, line by line.
        const bool by_rows = m.column == 1 || m.columns == 1;
        const long lines = by_rows ? m.rows : m.columns, length = by_rows ? m.columns : m.rows;
        const long line = by_rows ? m.row : m.column, step = by_rows ? m.column : m.row;
        Extremes found{0, 0, by_rows ? length : 1, by_rows ? 1 : length};
        if (reading.coded)
            codes.resize(static_cast<size_t>(lines * length));
        const bool dense = step == 1 || length == 1;
        const bool whole = dense && (line == length || lines == 1);
        const long pieces = whole ? 1 : lines, size = whole ? lines * length : length;
        for (long i = 0; i < pieces; ++i) {
            const int32_t *x = m.data + i * line;
            if (!dense) {
                line_.resize(static_cast<size_t>(size));
                for (long j = 0; j < size; ++j)
                    line_[j] = x[j * step];
                x = line_.data();
            }
            if (reading.coded) {
                int32_t *c = codes.data() + i * size;
                saturated += kernels_->codes(x, c, size, reading.factor, reading.lowest, reading.highest);
            } else {
                kernels_->extremes(x, size, &found.low, &found.high);
            }
        }
        if (reading.coded) { // codes' extremes are their rule's
            found.low = std::min(0, static_cast<int32_t>(reading.lowest));
            found.high = std::max(0, static_cast<int32_t>(reading.highest));
        }
        return found;
    }

    const Kernels *kernels_;
    Matrix a_, b_;
    Rounding target_;
    std::vector<int32_t> a_codes_, b_codes_, workspace_, line_;
};

enum class Kind : int { fixed, binary32, binary64, int32, int64, boolean, uint8 };

// An input or output of an element-wise program.
struct Place {
    char *data;
    Kind kind;
    double scale; // of an input, what 1 stands for; of an output, its inverse
    double lowest, highest;
    std::vector<long> strides; // one for each dimension of the program
    int slot;
};

struct Instruction {
    Op op;
    int target, a, b, c; // slots; -1 where there is no argument
};

// A program run block by block on slots of binary64.
class Elementwise {
  public:
    Elementwise(const Kernels *kernels, std::vector<long> shape, int slots)
        : kernels_(kernels), shape_(std::move(shape)), slots_(static_cast<size_t>(slots) * BLOCK) {}

    void add_constant(int slot, double value) { std::fill_n(at(slot), BLOCK, value); }
    void add_input(Place place) { inputs_.push_back(std::move(place)); }
    void add_instruction(Instruction instruction) { program_.push_back(instruction); }
    void add_output(Place place) {
        outputs_.push_back(std::move(place));
        saturated.push_back(0);
    }

    // Returns how many results saturated; by output in `saturated`.
    int64_t run() {
        std::fill(saturated.begin(), saturated.end(), 0);
        for (const Place &place : inputs_)
            if (is_one_number(place))
                std::fill_n(at(place.slot), BLOCK, read(place, place.data));
        const size_t outer = shape_.size() - 1;
        const long inner = shape_[outer];
        long lines = 1;
        for (size_t i = 0; i < outer; ++i)
            lines *= shape_[i];
        for (long number = 0; number < lines; ++number)
            for (long start = 0; start < inner; start += BLOCK)
                block(number, start, std::min<long>(BLOCK, inner - start));
        int64_t total = 0;
        for (int64_t one : saturated)
            total += one;
        return total;
    }

    std::vector<int64_t> saturated;

  private:
    static constexpr long BLOCK = 128; // some 20 slots of it stay in the first-level cache

    double *at(int slot) { return slots_.data() + static_cast<size_t>(slot) * BLOCK; }

    static bool is_one_number(const Place &place) {
        return std::all_of(place.strides.begin(), place.strides.end(), [](long s) { return s == 0; });
    }

    static long item_bytes(Kind kind) {
        switch (kind) {
        case Kind::binary64:
        case Kind::int64:
            return 8;
        case Kind::boolean:
        case Kind::uint8:
            return 1;
        default:
            return 4;
        }
    }

    static double read(const Place &place, const char *p) {
        switch (place.kind) {
        case Kind::fixed:
            return *reinterpret_cast<const int32_t *>(p) * place.scale;
        case Kind::binary32:
            return *reinterpret_cast<const float *>(p);
        case Kind::binary64:
            return *reinterpret_cast<const double *>(p);
        case Kind::int32:
            return *reinterpret_cast<const int32_t *>(p);
        case Kind::int64:
            return static_cast<double>(*reinterpret_cast<const int64_t *>(p));
        default:
            return *reinterpret_cast<const uint8_t *>(p);
        }
    }

    char *address(const Place &place, long number, long start) const {
        long offset = start * place.strides.back();
        for (size_t i = shape_.size() - 1; i-- > 0;) {
            offset += number % shape_[i] * place.strides[i];
            number /= shape_[i];
        }
        return place.data + offset * item_bytes(place.kind);
    }

    void block(long number, long start, long n) {
        for (const Place &place : inputs_) {
            if (is_one_number(place))
                continue;
            const char *p = address(place, number, start);
            const long step = place.strides.back(), bytes = step * item_bytes(place.kind);
            double *d = at(place.slot);
            if (place.kind == Kind::fixed && step == 1)
                kernels_->load(d, reinterpret_cast<const int32_t *>(p), n, place.scale);
            else if (place.kind == Kind::binary32 && step == 1)
                std::copy_n(reinterpret_cast<const float *>(p), n, d);
            else if (step == 0)
                std::fill_n(d, n, read(place, p));
            else
                for (long i = 0; i < n; ++i)
                    d[i] = read(place, p + i * bytes);
        }
        for (const Instruction &i : program_)
            kernels_->elementwise[static_cast<int>(i.op)](at(i.target), at(i.a), at(i.b < 0 ? i.a : i.b),
                                                          at(i.c < 0 ? i.a : i.c), n);
        for (size_t k = 0; k < outputs_.size(); ++k)
            write(outputs_[k], address(outputs_[k], number, start), n, saturated[k]);
    }

    void write(const Place &place, char *p, long n, int64_t &saturated) {
        const double *d = at(place.slot);
        const long step = place.strides.back(), bytes = step * item_bytes(place.kind);
        if (place.kind == Kind::fixed) {
            if (step == 1) {
                saturated += kernels_->store(reinterpret_cast<int32_t *>(p), d, n, place.scale, place.lowest,
                                             place.highest);
                return;
            }
            int32_t raw[BLOCK];
            saturated += kernels_->store(raw, d, n, place.scale, place.lowest, place.highest);
            for (long i = 0; i < n; ++i)
                *reinterpret_cast<int32_t *>(p + i * bytes) = raw[i];
            return;
        }
        for (long i = 0; i < n; ++i, p += bytes)
            switch (place.kind) {
            case Kind::binary32:
                *reinterpret_cast<float *>(p) = static_cast<float>(d[i]);
                break;
            case Kind::binary64:
                *reinterpret_cast<double *>(p) = d[i];
                break;
            case Kind::int32:
                *reinterpret_cast<int32_t *>(p) = static_cast<int32_t>(d[i]);
                break;
            case Kind::int64:
                *reinterpret_cast<int64_t *>(p) = static_cast<int64_t>(d[i]);
                break;
            case Kind::boolean:
                *reinterpret_cast<uint8_t *>(p) = d[i] != 0;
                break;
            default:
                *reinterpret_cast<uint8_t *>(p) = static_cast<uint8_t>(d[i]);
            }
    }

    const Kernels *kernels_;
    std::vector<long> shape_;
    std::vector<double> slots_;
    std::vector<Place> inputs_, outputs_;
    std::vector<Instruction> program_;
};

} // namespace placerl::quantization
