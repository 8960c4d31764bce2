// Element-wise programs of fixed-point step graphs, as objects that are made once and run at every step.
// Arrays are given by their address, strides in elements; whoever makes an object keeps its arrays where they
// are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "learner/native/ranges.hpp"
#include "quantization/native/kernels.hpp"
#include "quantization/native/numbers.hpp"
#include "quantization/native/operation.hpp"

namespace placerl::quantization {

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
class Elementwise : public Operation {
  public:
    Elementwise(const Kernels *kernels, std::vector<long> shape, int slots)
        : Operation(0), kernels_(kernels), shape_(std::move(shape)),
          slots_(static_cast<size_t>(slots) * BLOCK) {}

    void add_constant(int slot, double value) { std::fill_n(at(slot), BLOCK, value); }
    void add_input(Place place) { inputs_.push_back(std::move(place)); }
    void add_instruction(Instruction instruction) { program_.push_back(instruction); }
    void add_output(Place place) {
        outputs_.push_back(std::move(place));
        saturated.push_back(0);
    }

    void run() override {
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
    }

    double cost_ns() const override {
        double element_ns = 0.3 * static_cast<double>(inputs_.size() + outputs_.size());
        for (const Instruction &i : program_)
            element_ns += operation_ns(i.op);
        return element_ns * static_cast<double>(product_of(shape_));
    }

  protected:
    // Along the first dimension that is long enough, in whole blocks where it is the last.
    Parts split(int parts) const override {
        Parts made;
        if (!in_any_order())
            return made;
        size_t chosen = 0;
        for (size_t i = 1; i < shape_.size(); ++i)
            if (shape_[i] > shape_[chosen])
                chosen = i;
        const long unit = chosen + 1 == shape_.size() ? BLOCK : 1;
        for (const learner::Range &range : learner::ranges(shape_[chosen], unit, parts)) {
            auto part = std::make_shared<Elementwise>(*this);
            part->shape_[chosen] = range.size;
            for (auto *places : {&part->inputs_, &part->outputs_})
                for (Place &place : *places)
                    place.data += range.first * place.strides[chosen] * item_bytes(place.kind);
            made.push_back(std::move(part));
        }
        return made;
    }

  private:
    static constexpr long BLOCK = 128; // some 20 slots of it stay in the first-level cache

    double *at(int slot) { return slots_.data() + static_cast<size_t>(slot) * BLOCK; }

    static double operation_ns(Op op) {
        switch (op) {
        case Op::exp:
        case Op::expm1:
        case Op::log:
        case Op::log1p:
        case Op::tanh:
        case Op::sigmoid:
            return 3;
        case Op::div:
        case Op::sqrt:
        case Op::rsqrt:
        case Op::reciprocal:
            return 0.8;
        default:
            return 0.15;
        }
    }

    // Whether what is written is read at the same element or not at all.
    bool in_any_order() const {
        const auto span = [&](const Place &place) {
            long first = 0, last = 1;
            for (size_t i = 0; i < shape_.size(); ++i)
                (place.strides[i] < 0 ? first : last) += (shape_[i] - 1) * place.strides[i];
            const long bytes = item_bytes(place.kind);
            return std::pair(place.data + first * bytes, place.data + last * bytes);
        };
        for (const Place &output : outputs_)
            for (const auto *others : {&inputs_, &outputs_})
                for (const Place &other : *others) {
                    const auto [a, a_end] = span(output);
                    const auto [b, b_end] = span(other);
                    const bool same = output.data == other.data && output.kind == other.kind &&
                                      output.strides == other.strides;
                    if (a < b_end && b < a_end && !same)
                        return false;
                }
        return true;
    }

    static bool is_one_number(const Place &place) {
        return std::all_of(place.strides.begin(), place.strides.end(), [](long s) { return s == 0; });
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
                kernels_->load_floats(d, reinterpret_cast<const float *>(p), n);
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
        if (place.kind == Kind::binary32 && step == 1)
            return kernels_->store_floats(reinterpret_cast<float *>(p), d, n);
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
