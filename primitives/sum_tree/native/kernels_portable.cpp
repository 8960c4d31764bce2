// Plain C++ that the compiler may vectorise for any processor.
#include <cstdint>

namespace placerl::sum_tree {
namespace {

template <typename Real>
struct Lanes {
    static constexpr int width = 8;
    struct Vector {
        Real lane[width];
    };

    static Vector load(const Real *p, int count) {
        Vector v{};
        for (int i = 0; i < width; ++i)
            v.lane[i] = i < count ? p[i] : Real(0);
        return v;
    }
    static void store(Real *p, Vector v, int count) {
        for (int i = 0; i < width; ++i)
            if (i < count)
                p[i] = v.lane[i];
    }
    static Vector exclusive(Vector v, Real &total) {
        Vector sums{};
        for (int i = 1; i < width; ++i)
            sums.lane[i] = sums.lane[i - 1] + v.lane[i - 1];
        total = sums.lane[width - 1] + v.lane[width - 1];
        return sums;
    }
    static Real sum(Vector v) {
        Real total = 0;
        for (int i = 0; i < width; ++i)
            total += v.lane[i];
        return total;
    }
    static Vector add(Vector v, Real x) {
        for (int i = 0; i < width; ++i)
            v.lane[i] += x;
        return v;
    }
    static uint32_t positive(Vector v) {
        uint32_t bits = 0;
        for (int i = 0; i < width; ++i)
            bits |= uint32_t(v.lane[i] > 0) << i;
        return bits;
    }
    static uint32_t at_most(Vector v, Real x) {
        uint32_t bits = 0;
        for (int i = 0; i < width; ++i)
            bits |= uint32_t(v.lane[i] <= x) << i;
        return bits;
    }
    static Vector select(uint32_t bits, Vector v, Real x) {
        for (int i = 0; i < width; ++i)
            v.lane[i] = (bits >> i) & 1 ? v.lane[i] : x;
        return v;
    }
};

} // namespace
} // namespace placerl::sum_tree

#include "sum_tree/native/kernels_body.hpp"

namespace placerl::sum_tree {

template <typename Real>
const Kernels<Real> *portable_kernels() {
    return table<Real>("portable");
}
template const Kernels<float> *portable_kernels<float>();
template const Kernels<double> *portable_kernels<double>();

} // namespace placerl::sum_tree
