// Element-wise programs of fixed-point step graphs, as objects that are made once and run at every step.
// Arrays are given by their address, strides in elements; whoever makes an object keeps its arrays where they
// are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "quantization/native/kernels.hpp"
#include "quantization/native/operation.hpp"

namespace placerl::quantization {

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

    bool run() override {
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
        return true;
    }

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
