// Stored numbers of a fixed-point step graph: what they are, where they lie, and how those of one kind are
// stored as another. Arrays are given by their address, strides in elements.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace placerl::quantization {

enum class Kind : int { fixed, binary32, binary64, int32, int64, boolean, uint8 };

inline long item_bytes(Kind kind) {
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

inline bool is_float(Kind kind) { return kind == Kind::binary32 || kind == Kind::binary64; }

// A strided window.
struct Numbers {
    char *data = nullptr;
    Kind kind = Kind::fixed;
    std::vector<long> strides;

    char *at(long offset) const { return data + offset * item_bytes(kind); }

    // Of a kind that is no float: raw values where it is fixed-point.
    int64_t whole(long offset) const {
        const char *p = at(offset);
        switch (kind) {
        case Kind::int64:
            return *reinterpret_cast<const int64_t *>(p);
        case Kind::boolean:
        case Kind::uint8:
            return *reinterpret_cast<const uint8_t *>(p);
        default:
            return *reinterpret_cast<const int32_t *>(p);
        }
    }
    double real(long offset) const {
        return kind == Kind::binary32   ? *reinterpret_cast<const float *>(at(offset))
               : kind == Kind::binary64 ? *reinterpret_cast<const double *>(at(offset))
                                        : static_cast<double>(whole(offset));
    }
};

// From numbers of one kind to those of another, rounded once, ties upwards.
struct Conversion {
    bool fixed = false;  // the source's are fixed-point
    bool copies = false; // and the target's, of the same format
    int places = 0;      // fraction bits that a fixed-point target has less than a fixed-point source
    double step = 1;     // what 1 of a fixed-point source stands for
    double scale = 1;    // how many of a fixed-point target's make 1
    int64_t lowest = 0, highest = 0; // of a fixed-point target

    // Both return whether it saturated.
    int64_t store(const Numbers &target, long offset, int64_t value) const {
        if (target.kind == Kind::fixed)
            return fixed ? keep(target, offset, shifted(value))
                         : keep_real(target, offset, static_cast<double>(value));
        if (is_float(target.kind)) {
            if (!fixed && target.kind == Kind::binary32)
                *reinterpret_cast<float *>(target.at(offset)) = static_cast<float>(value);
            else
                store(target, offset, static_cast<double>(value) * step);
            return 0;
        }
        char *p = target.at(offset);
        switch (target.kind) {
        case Kind::int64:
            *reinterpret_cast<int64_t *>(p) = value;
            break;
        case Kind::boolean:
            *reinterpret_cast<uint8_t *>(p) = value != 0;
            break;
        case Kind::uint8:
            *reinterpret_cast<uint8_t *>(p) = static_cast<uint8_t>(value);
            break;
        default:
            *reinterpret_cast<int32_t *>(p) = static_cast<int32_t>(value);
        }
        return 0;
    }
    int64_t store(const Numbers &target, long offset, double value) const {
        if (target.kind == Kind::fixed)
            return keep_real(target, offset, value);
        if (target.kind == Kind::binary32)
            *reinterpret_cast<float *>(target.at(offset)) = static_cast<float>(value);
        else
            *reinterpret_cast<double *>(target.at(offset)) = value;
        return 0;
    }

  private:
    // To the left, what would leave the format is clipped before.
    int64_t shifted(int64_t x) const {
        if (places > 0)
            return (x >> places) + (x >> (places - 1) & 1);
        const int left = -places;
        if (x < lowest >> left)
            return lowest - 1;
        if (x > highest >> left)
            return highest + 1;
        return x * (int64_t(1) << left);
    }
    int64_t keep(const Numbers &target, long offset, int64_t x) const {
        const int64_t clipped = x < lowest ? lowest : x > highest ? highest : x;
        *reinterpret_cast<int32_t *>(target.at(offset)) = static_cast<int32_t>(clipped);
        return clipped != x;
    }
    int64_t keep_real(const Numbers &target, long offset, double value) const {
        const double scaled = value * scale, below = std::floor(scaled);
        const double whole = below + (scaled - below >= 0.5 ? 1.0 : 0.0);
        const auto low = static_cast<double>(lowest), high = static_cast<double>(highest);
        const double clipped = whole < low ? low : whole > high ? high : whole;
        *reinterpret_cast<int32_t *>(target.at(offset)) =
            static_cast<int32_t>(clipped == clipped ? clipped : 0.0);
        return !(clipped == whole);
    }
};

constexpr size_t MOST_DIMENSIONS = 8;

// visit(offsets) for every index of `shape` in order, an offset for each of the lists of strides.
template <size_t N, typename Visit>
inline void for_indices(const std::vector<long> &shape,
                        const std::array<const std::vector<long> *, N> &strides, Visit visit) {
    const int dimensions = static_cast<int>(shape.size());
    for (const long size : shape)
        if (size == 0)
            return;
    long index[MOST_DIMENSIONS] = {};
    std::array<long, N> offsets{};
    for (;;) {
        visit(offsets);
        int i = dimensions - 1;
        for (; i >= 0; --i) {
            const auto d = static_cast<size_t>(i);
            for (size_t k = 0; k < N; ++k)
                offsets[k] += (*strides[k])[d];
            if (++index[i] < shape[d])
                break;
            for (size_t k = 0; k < N; ++k)
                offsets[k] -= shape[d] * (*strides[k])[d];
            index[i] = 0;
        }
        if (i < 0)
            return;
    }
}

inline long product_of(const std::vector<long> &sizes) {
    long total = 1;
    for (const long size : sizes)
        total *= size;
    return total;
}

} // namespace placerl::quantization
