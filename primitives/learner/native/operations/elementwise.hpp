// Fused element-wise groups.
#pragma once

#include <algorithm>
#include <vector>

#include "learner/native/kernels.hpp"
#include "learner/native/memory.hpp"

namespace placerl::learner {

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
    long count = 0;
    long block = 0;
    std::vector<Transfer> loads, stores;
    std::vector<Instruction> instructions;

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
        for (long start = 0; start < count; start += block) {
            const long size = std::min(block, count - start);
            for (const Transfer &t : loads)
                if (!t.once)
                    load(t, start, size);
            for (const Instruction &i : instructions)
                i.function(i.target.base + i.target.step * start, i.a.base + i.a.step * start,
                           i.b.base + i.b.step * start, i.c.base + i.c.step * start, static_cast<int>(size));
            for (const Transfer &t : stores)
                store(t, start, size);
        }
    }
};

} // namespace placerl::learner
