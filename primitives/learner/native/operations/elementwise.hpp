// Fused element-wise groups.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "learner/native/kernels.hpp"
#include "learner/native/memory.hpp"
#include "learner/native/ranges.hpp"

namespace placerl::learner {

// About how long an operation takes for an element in the first-level cache.
inline double operation_ns(Op op) {
    switch (op) {
    case Op::sin:
    case Op::cos:
    case Op::erf:
    case Op::pow:
    case Op::expm1:
    case Op::remainder:
        return 5; // calls of the C library
    case Op::exp:
    case Op::log:
    case Op::log1p:
    case Op::tanh:
    case Op::sigmoid:
        return 0.5;
    case Op::div:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::reciprocal:
        return 0.2;
    default:
        return 0.05;
    }
}

// A fused group: for each block of elements, load what does not lie ready, run the instructions, store the
// rest.
struct Elementwise {
    // An argument is base + step * (first element of the block); step is 0 for registers.
    struct Argument {
        float *base = nullptr;
        long step = 0;
    };
    struct Instruction {
        ElementwiseLoop function;
        Argument target, a, b, c;
    };
    struct Transfer {
        StridedView view;
        float *block;
        bool once; // the same for every block
    };
    std::vector<long> shape;
    long first = 0, count = 0; // the elements first .. count - 1 of the shape are worked on
    long block = 0;
    std::vector<Transfer> loads, stores;
    std::vector<Instruction> instructions;
    double element_ns = 0;            // what one costs, about
    const float *registers = nullptr; // the memory of those arguments that are no view
    long registers_size = 0;          // floats; that of another thread follows it
    std::vector<Argument> searched;   // results that become the state: searched while they are in the cache
    bool (*all_finite)(const float *, long) = nullptr;
    std::atomic<bool> *overflowed = nullptr; // set where one is NaN or infinite

    void load(const Transfer &t, long start, long size) const {
        const StridedView &view = t.view;
        const long stride = shape.empty() ? 0 : view.strides.back();
        const std::size_t bytes = item_bytes(view.type);
        for_runs(shape, view.strides, start, size, [&](long position, long run, long offset) {
            const std::byte *source = view.data + offset * static_cast<long>(bytes);
            float *target = t.block + position;
            if (view.type != Type::float32) {
                for (long i = 0; i < run; ++i)
                    target[i] = read_element(source + i * stride * static_cast<long>(bytes), view.type);
                return;
            }
            const auto *floats = reinterpret_cast<const float *>(source);
            if (stride == 1)
                for (long i = 0; i < run; ++i)
                    target[i] = floats[i];
            else if (stride == 0)
                std::fill(target, target + run, *floats);
            else
                for (long i = 0; i < run; ++i)
                    target[i] = floats[i * stride];
        });
    }

    void store(const Transfer &t, long start, long size) const {
        const StridedView &view = t.view;
        const long stride = shape.empty() ? 0 : view.strides.back();
        const long bytes = static_cast<long>(item_bytes(view.type));
        for_runs(shape, view.strides, start, size, [&](long position, long run, long offset) {
            std::byte *target = view.data + offset * bytes;
            const float *source = t.block + position;
            if (view.type == Type::float32) {
                auto *floats = reinterpret_cast<float *>(target);
                for (long i = 0; i < run; ++i)
                    floats[i * stride] = source[i];
            } else {
                for (long i = 0; i < run; ++i)
                    write_element(target + i * stride * bytes, view.type, source[i]);
            }
        });
    }

    void run() const {
        for (const Transfer &t : loads)
            if (t.once)
                load(t, 0, std::min(block, count));
        for (long start = first; start < count; start += block) {
            const long size = std::min(block, count - start);
            for (const Transfer &t : loads)
                if (!t.once)
                    load(t, start, size);
            for (const Instruction &i : instructions)
                i.function(i.target.base + i.target.step * start, i.a.base + i.a.step * start,
                           i.b.base + i.b.step * start, i.c.base + i.c.step * start, static_cast<int>(size));
            for (const Argument &result : searched)
                if (!all_finite(result.base + result.step * start, size))
                    overflowed->store(true, std::memory_order_relaxed);
            for (const Transfer &t : stores)
                store(t, start, size);
        }
    }

    // About how long it takes on one core.
    double cost_ns() const { return static_cast<double>(count - first) * element_ns; }

    // The group in at most so many parts of whole blocks, each with registers of its own.
    std::vector<Elementwise> split(int parts) const {
        if (!in_any_order())
            return {*this};
        std::vector<Elementwise> made;
        for (const auto &[begin, size] : ranges((count + block - 1) / block, 1, parts)) {
            Elementwise part = *this;
            part.first = begin * block;
            part.count = std::min(count, (begin + size) * block);
            part.move_registers(static_cast<long>(made.size()) * registers_size);
            made.push_back(std::move(part));
        }
        return made;
    }

  private:
    bool is_register(const float *p) const {
        const std::less<const float *> before; // of pointers into different arrays
        return !before(p, registers) && before(p, registers + registers_size);
    }

    void move_registers(long floats) {
        auto move = [&](auto *&p) { p += is_register(p) ? floats : 0; };
        for (Transfer &t : loads)
            move(t.block);
        for (Transfer &t : stores)
            move(t.block);
        for (Instruction &i : instructions)
            for (Argument *argument : {&i.target, &i.a, &i.b, &i.c})
                move(argument->base);
        for (Argument &result : searched)
            move(result.base);
    }

    // Whether the blocks may be done in any order: what is written is read at the same element or not at all.
    bool in_any_order() const {
        std::vector<StridedView> reads, writes;
        auto add = [&](std::vector<StridedView> &views, const Argument &argument) {
            if (is_register(argument.base))
                return;
            StridedView view{reinterpret_cast<std::byte *>(argument.base), Type::float32, {}};
            view.strides.assign(shape.size(), 0);
            for (long i = static_cast<long>(shape.size()) - 1, stride = argument.step; i >= 0; --i) {
                view.strides[static_cast<std::size_t>(i)] = stride;
                stride *= shape[static_cast<std::size_t>(i)];
            }
            views.push_back(std::move(view));
        };
        for (const Transfer &t : loads)
            reads.push_back(t.view);
        for (const Transfer &t : stores)
            writes.push_back(t.view);
        for (const Instruction &i : instructions) {
            add(writes, i.target);
            for (const Argument *argument : {&i.a, &i.b, &i.c})
                add(reads, *argument);
        }
        for (const StridedView &write : writes)
            for (const auto *others : {&reads, &writes})
                for (const StridedView &other : *others)
                    if (overlap(write, other, shape) &&
                        (write.data != other.data || write.type != other.type ||
                         write.strides != other.strides))
                        return false;
        return true;
    }
};

} // namespace placerl::learner
