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
        const Walk walk = dimensions();
        long total = 1;
        for (const long size : shape)
            total *= size;
        // visit(element of x, of the indices, of y, and the position along the axis)
        auto each = [&](auto visit) {
            long position[MAXIMUM_DIMENSIONS] = {};
            long in = 0, at = 0, out = 0, along = 0;
            for (long n = 0; n < total; ++n) {
                visit(in, at, out, along);
                for (int i = walk.count - 1; i >= 0; --i) {
                    const Dimension &d = walk.dimensions[i];
                    in += d.x, at += d.index, out += d.y, along += d.along;
                    if (++position[i] < d.size)
                        break;
                    in -= d.size * d.x, at -= d.size * d.index, out -= d.size * d.y;
                    along -= d.size * d.along;
                    position[i] = 0;
                }
            }
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
        const long step = x.strides[static_cast<std::size_t>(axis)];
        switch (kind) {
        case Kind::gather:
        case Kind::take:
            each([&](long in, long at, long out, long along) {
                floats[out] = from[in + (looked_up(at) - along) * step];
            });
            return;
        case Kind::scatter_add: { // x is the source here, y already holds what is added to
            const long apart = y.strides[static_cast<std::size_t>(axis)];
            each([&](long in, long at, long out, long along) {
                floats[out + (looked_up(at) - along) * apart] += from[in];
            });
            return;
        }
        case Kind::argmax:
        case Kind::argmin: // `shape` has size 1 along the axis
            each([&](long in, long, long out, long) {
                long best = 0;
                for (long i = 1; i < limit; ++i) {
                    const float value = from[in + i * step];
                    const float record = from[in + best * step];
                    if (record == record &&
                        (value != value || (kind == Kind::argmax ? value > record : value < record)))
                        best = i;
                }
                const std::int64_t result = best;
                std::memcpy(y.data + out * 8, &result, 8);
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

  private:
    // How far one step along a dimension goes in each view, and along the axis.
    struct Dimension {
        long size, x, index, y, along;
    };
    struct Walk {
        Dimension dimensions[MAXIMUM_DIMENSIONS];
        int count = 0;
    };

    // Without those of size 1, along which nothing moves.
    Walk dimensions() const {
        Walk walk;
        auto stride = [](const StridedView &view, std::size_t i) {
            return i < view.strides.size() ? view.strides[i] : 0;
        };
        for (std::size_t i = 0; i < shape.size(); ++i) {
            const bool along = static_cast<int>(i) == axis;
            const long indices = kind != Kind::take ? stride(index, i) : along ? index.strides[0] : 0;
            if (shape[i] != 1)
                walk.dimensions[walk.count++] = {shape[i], stride(x, i), indices, stride(y, i), long{along}};
        }
        return walk;
    }
};

} // namespace placerl::learner
