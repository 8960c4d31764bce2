// Gathers, scatters and argument reductions.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "learner/native/memory.hpp"
#include "learner/native/ranges.hpp"

namespace placerl::learner {

// Operations that move or pick elements; all walk the index space of `shape` element by element.
struct Pick {
    enum class Kind : int { gather, scatter_add, take, argmax, argmin } kind;
    std::vector<long> shape;
    int axis;
    long limit; // of the index along the axis, or how many elements an argument reduction looks at
    StridedView x, index, y;

    void run() const {
        const auto *from = reinterpret_cast<const float *>(x.data);
        long total = 1;
        for (const long size : shape)
            total *= size;
        auto each = [&](auto visit) {
            long position[MAXIMUM_DIMENSIONS] = {};
            for (long n = 0; n < total; ++n) {
                visit(position);
                for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) {
                    if (++position[i] < shape[i])
                        break;
                    position[i] = 0;
                }
            }
        };
        auto offset = [&](const StridedView &view, const long *position) {
            long at = 0;
            for (std::size_t i = 0; i < view.strides.size(); ++i)
                at += position[i] * view.strides[i];
            return at;
        };
        auto looked_up = [&](long at) {
            const std::byte *p = index.data + at * static_cast<long>(item_bytes(index.type));
            long i = 0;
            if (index.type == Type::int64) {
                std::int64_t wide;
                std::memcpy(&wide, p, 8);
                i = wide;
            } else {
                i = static_cast<long>(read_element(p, index.type));
            }
            if (i < 0 || i >= limit)
                throw std::out_of_range("index: found " + std::to_string(i) + "; allowed: 0 .. " +
                                        std::to_string(limit - 1));
            return i;
        };
        auto *floats = reinterpret_cast<float *>(y.data);
        switch (kind) {
        case Kind::gather:
            each([&](long *position) {
                const long to = offset(y, position), i = looked_up(offset(index, position));
                floats[to] = from[offset(x, position) + (i - position[axis]) * x.strides[axis]];
            });
            return;
        case Kind::scatter_add: // x is the source here, y already holds what is added to
            each([&](long *position) {
                const long i = looked_up(offset(index, position));
                floats[offset(y, position) + (i - position[axis]) * y.strides[axis]] +=
                    from[offset(x, position)];
            });
            return;
        case Kind::take:
            each([&](long *position) {
                const long i = looked_up(position[axis] * index.strides[0]);
                floats[offset(y, position)] =
                    from[offset(x, position) + (i - position[axis]) * x.strides[axis]];
            });
            return;
        case Kind::argmax:
        case Kind::argmin: // `shape` has size 1 along the axis
            each([&](long *position) {
                const long start = offset(x, position);
                long best = 0;
                for (long i = 1; i < limit; ++i) {
                    const float value = from[start + i * x.strides[axis]];
                    const float record = from[start + best * x.strides[axis]];
                    if (record == record &&
                        (value != value || (kind == Kind::argmax ? value > record : value < record)))
                        best = i;
                }
                const std::int64_t result = best;
                std::memcpy(y.data + offset(y, position) * 8, &result, 8);
            });
        }
    }

    // About how long it takes on one core.
    double cost_ns() const {
        constexpr double ELEMENT_NS = 5;
        double elements = kind == Kind::argmax || kind == Kind::argmin ? static_cast<double>(limit) : 1;
        for (const long size : shape)
            elements *= static_cast<double>(size);
        return elements * ELEMENT_NS;
    }

    // Divides the operation into at most that many parts, along the longest dimension other than the axis.
    std::vector<Pick> split(int parts) const {
        std::size_t chosen = shape.size();
        for (std::size_t i = 0; i < shape.size(); ++i)
            if (static_cast<int>(i) != axis && (chosen == shape.size() || shape[i] > shape[chosen]))
                chosen = i;
        if (chosen == shape.size() || y.strides[chosen] == 0)
            return {*this};
        std::vector<Pick> made;
        for (const auto &[first, size] : ranges(shape[chosen], 1, parts)) {
            Pick part = *this;
            part.shape[chosen] = size;
            for (StridedView *view : {&part.x, &part.index, &part.y})
                if (chosen < view->strides.size() && !(kind == Kind::take && view == &part.index))
                    view->data += first * view->strides[chosen] * static_cast<long>(item_bytes(view->type));
            made.push_back(std::move(part));
        }
        return made;
    }
};

} // namespace placerl::learner
