// Sine, cosine and squares with the bits that Gymnasium's environments get.
//
// Gymnasium calls numpy.sin and numpy.cos, or math.cos. Where NumPy's double-precision loops give the C
// library's bits (checked over a sample when Python loads the loops) the C library is called; otherwise
// NumPy's own loop is, an element at a time, which needs no interpreter. `source()` says which it is.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace placerl::environments {

// An inner loop of a NumPy ufunc: PyUFuncGenericFunction, whose npy_intp is an intptr_t.
using UfuncLoop = void (*)(char **arguments, const intptr_t *dimensions, const intptr_t *strides, void *data);

struct Loop {
    UfuncLoop function = nullptr;
    void *data = nullptr;

    template <typename Number>
    Number operator()(Number value) const {
        Number result;
        char *arguments[2] = {reinterpret_cast<char *>(&value), reinterpret_cast<char *>(&result)};
        const intptr_t dimension = 1, strides[2] = {sizeof(Number), sizeof(Number)};
        function(arguments, &dimension, strides, data);
        return result;
    }
};

struct NumpyLoops {
    Loop sine, cosine;             // of doubles
    Loop sine_float, cosine_float; // of floats, always NumPy's: its vector code differs from the C library's
};

// Sets the loops for the whole process, before the first environment steps. Without them (in a program
// without Python) everything is the C library's. True if the C library's double-precision functions are used.
bool use_numpy(const NumpyLoops &loops);

namespace detail {
extern NumpyLoops numpy_loops;
extern bool numpy_doubles; // the C library's differ
extern bool pow_is_near;   // the C library's pow is as accurate as `power_2` needs, over a sample
extern double two;         // unknown to the compiler, which would write pow(x, 2) as x * x
} // namespace detail

// "C library" or "NumPy".
inline const char *source() { return detail::numpy_doubles ? "NumPy" : "C library"; }

// As numpy.sin and numpy.cos of a double.
inline double sine(double angle) {
    return __builtin_expect(detail::numpy_doubles, 0) ? detail::numpy_loops.sine(angle) : std::sin(angle);
}
inline double cosine(double angle) {
    return __builtin_expect(detail::numpy_doubles, 0) ? detail::numpy_loops.cosine(angle) : std::cos(angle);
}
inline float sine_float(float angle) {
    const Loop &loop = detail::numpy_loops.sine_float;
    return loop.function ? loop(angle) : std::sin(angle);
}
inline float cosine_float(float angle) {
    const Loop &loop = detail::numpy_loops.cosine_float;
    return loop.function ? loop(angle) : std::cos(angle);
}

// Both, in one call of the C library.
inline void turn(double angle, bool numpy, double *sin, double *cos) {
    if (__builtin_expect(numpy, 0)) {
        *sin = detail::numpy_loops.sine(angle);
        *cos = detail::numpy_loops.cosine(angle);
    } else {
        *sin = std::sin(angle);
        *cos = std::cos(angle);
    }
}

inline void turn(double angle, double *sin, double *cos) { turn(angle, detail::numpy_doubles, sin, cos); }

// x ** 2 of Python and NumPy numbers is the C library's pow, whose error is up to 0.54 of the last place:
// where x * x is not near the middle between two numbers, that is what pow gives, and elsewhere pow is
// called.
inline double power_2(double x) {
    const double square = x * x;
    if (detail::pow_is_near && square > 1e-280 && square < 1e280) {
        const double head = std::bit_cast<double>(std::bit_cast<uint64_t>(x) & ~((uint64_t(1) << 27) - 1));
        const double tail = x - head;
        const double rest = ((head * head - square) + 2 * head * tail) + tail * tail;
        const uint64_t exponent = std::bit_cast<uint64_t>(square) & (uint64_t(0x7ff) << 52);
        if (std::abs(rest) < std::bit_cast<double>(exponent) * (0.44 * 0x1p-52))
            return square;
    }
    return ::pow(x, detail::two);
}
inline float power_2_float(float x) {
    const double exact = double(x) * x;
    const float square = float(exact);
    if (detail::pow_is_near && square > 1e-30f && square < 1e30f) {
        const uint32_t exponent = std::bit_cast<uint32_t>(square) & (uint32_t(0xff) << 23);
        if (std::abs(exact - square) < double(std::bit_cast<float>(exponent)) * (0.44 * 0x1p-23))
            return square;
    }
    return ::powf(x, float(detail::two));
}

} // namespace placerl::environments
