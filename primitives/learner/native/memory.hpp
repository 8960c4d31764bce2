// The executor's memory and how views walk over it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "native/memory_block.hpp"

namespace placerl::learner {

constexpr int MAXIMUM_DIMENSIONS = 6;

// The last is fixed point's: element-wise groups of floats do not read it.
enum class Type : int { float32, int32, int64, boolean, uint8, float64 };

inline std::size_t item_bytes(Type type) {
    switch (type) {
    case Type::int64:
    case Type::float64:
        return 8;
    case Type::boolean:
    case Type::uint8:
        return 1;
    default:
        return 4;
    }
}

// A strided window on the arena; strides in elements.
struct StridedView {
    std::byte *data = nullptr;
    Type type = Type::float32;
    std::vector<long> strides;
};

// Whether the memory that the views span has a part in common, both being of this shape. It says so too of
// views that lie between each other's elements.
inline bool overlap(const StridedView &a, const StridedView &b, const std::vector<long> &shape) {
    auto ends = [&](const StridedView &view) {
        long first = 0, last = 1;
        for (std::size_t i = 0; i < shape.size(); ++i)
            (view.strides[i] < 0 ? first : last) += (shape[i] - 1) * view.strides[i];
        const auto start = reinterpret_cast<std::intptr_t>(view.data);
        const auto bytes = static_cast<std::intptr_t>(item_bytes(view.type));
        return std::pair(start + first * bytes, start + last * bytes);
    };
    const auto [a_first, a_end] = ends(a);
    const auto [b_first, b_end] = ends(b);
    return a_first < b_end && b_first < a_end;
}

// Page-aligned memory that starts at zero, on huge pages where it is that large.
class Arena {
  public:
    explicit Arena(std::size_t bytes) : block_(zeroed_block(bytes ? bytes : PAGE, PAGE)) {}
    std::byte *at(std::size_t offset) const { return block_.get() + offset; }

  private:
    static constexpr std::size_t PAGE = 4096;
    MemoryBlock block_;
};

inline float read_element(const std::byte *p, Type type) {
    switch (type) {
    case Type::float32: {
        float x;
        std::memcpy(&x, p, 4);
        return x;
    }
    case Type::int32: {
        std::int32_t x;
        std::memcpy(&x, p, 4);
        return static_cast<float>(x);
    }
    case Type::int64: {
        std::int64_t x;
        std::memcpy(&x, p, 8);
        return static_cast<float>(x);
    }
    default:
        return static_cast<float>(static_cast<std::uint8_t>(*p));
    }
}

// The integer that a float is cut to, or the nearest one of the type; 0 for NaN. A plain conversion is
// undefined where the type does not hold it, and the largest integers are rounded to such floats.
template <typename Integer>
inline Integer saturated(float x) {
    using Limits = std::numeric_limits<Integer>;
    if (x >= static_cast<float>(Limits::max()))
        return Limits::max();
    if (x <= static_cast<float>(Limits::min()))
        return Limits::min();
    return x == x ? static_cast<Integer>(x) : Integer{0};
}

// Bytes are modulo 256, as NumPy converts integers to them.
inline void write_element(std::byte *p, Type type, float x) {
    switch (type) {
    case Type::float32:
        std::memcpy(p, &x, 4);
        break;
    case Type::int32: {
        const auto i = saturated<std::int32_t>(x);
        std::memcpy(p, &i, 4);
        break;
    }
    case Type::int64: {
        const auto i = saturated<std::int64_t>(x);
        std::memcpy(p, &i, 8);
        break;
    }
    case Type::boolean:
        *p = static_cast<std::byte>(x != 0);
        break;
    default:
        *p = static_cast<std::byte>(static_cast<std::uint8_t>(saturated<std::int64_t>(x)));
    }
}

// Whether all are in [0, limit).
inline bool all_below(const std::int64_t *integers, long count, std::int64_t limit) {
    bool wrong = false;
    for (long i = 0; i < count; ++i)
        wrong |= static_cast<std::uint64_t>(integers[i]) >= static_cast<std::uint64_t>(limit);
    return !wrong;
}

// Whether all are in [0, 1].
inline bool all_in_unit(const float *numbers, long count) {
    bool wrong = false;
    for (long i = 0; i < count; ++i)
        wrong |= !(numbers[i] >= 0.0f && numbers[i] <= 1.0f);
    return !wrong;
}

// Whether an input's integers are in [0, limit), or its floats, whose limit is 1, in [0, 1]; all are for a
// limit of 0.
inline bool in_range(const void *numbers, Type type, std::size_t bytes, std::int64_t limit) {
    if (!limit)
        return true;
    if (type == Type::float32)
        return all_in_unit(static_cast<const float *>(numbers), static_cast<long>(bytes / sizeof(float)));
    return all_below(static_cast<const std::int64_t *>(numbers),
                     static_cast<long>(bytes / sizeof(std::int64_t)), limit);
}

// What is wrong with an input whose numbers are not.
inline std::string out_of_range(const std::string &name, Type type, std::int64_t limit) {
    const std::string kind = type == Type::float32 ? "a number" : "an integer";
    return name + ": found " + kind + " out of range; allowed: 0 to " +
           std::to_string(type == Type::float32 ? limit : limit - 1);
}

// Calls visit(position, size, offset...) for runs along the last dimension of `shape` that together cover the
// elements start .. start + count in row-major order; one offset, in elements, for each of the strides given.
template <typename Visit>
inline void for_runs(const std::vector<long> &shape, const std::vector<long> &strides, long start, long count,
                     Visit visit) {
    const int dimensions = static_cast<int>(shape.size());
    if (dimensions == 0) {
        visit(0L, 1L, 0L);
        return;
    }
    long index[MAXIMUM_DIMENSIONS];
    long offset = 0, rest = start;
    for (int i = dimensions - 1; i >= 0; --i) {
        index[i] = rest % shape[i];
        rest /= shape[i];
        offset += index[i] * strides[i];
    }
    const int last = dimensions - 1;
    for (long done = 0; done < count;) {
        const long run = std::min(shape[last] - index[last], count - done);
        visit(done, run, offset);
        done += run;
        index[last] += run;
        offset += run * strides[last];
        for (int i = last; i > 0 && index[i] == shape[i]; --i) {
            offset += strides[i - 1] - shape[i] * strides[i];
            index[i] = 0;
            ++index[i - 1];
        }
    }
}

} // namespace placerl::learner
