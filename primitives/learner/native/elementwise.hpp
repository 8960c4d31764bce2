// Element-wise kernels and reductions, as plain loops that the compiler vectorises. Included once per
// instruction set; see kernels_body.hpp. The approximations are Cephes' (single precision), written without
// branches.

inline float from_bits(std::int32_t i) { return std::bit_cast<float>(i); }
inline std::int32_t to_bits(float x) { return std::bit_cast<std::int32_t>(x); }

// Relative error below 2e-7; overflows to infinity, underflows through the denormals to 0, NaN stays.
inline float exponential(float x) {
    const float clamped = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    const float n = __builtin_rintf(clamped * 1.44269504088896341f);
    const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    // 2^n in two factors, so that neither leaves the range of normal numbers.
    const std::int32_t i = static_cast<std::int32_t>(n), half = i >> 1;
    return p * from_bits((half + 127) << 23) * from_bits((i - half + 127) << 23);
}

// Absolute error below 1 ulp of the result but near 1, where it is relative; log(0) is -infinity, of less
// NaN.
inline float logarithm(float x) {
    const bool tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 8388608.0f : x;
    const std::int32_t bits = to_bits(scaled);
    std::int32_t exponent = ((bits >> 23) & 0xff) - 126 - (tiny ? 23 : 0);
    float m = from_bits((bits & 0x007fffff) | 0x3f000000); // [0.5, 1)
    const bool low = m < 0.707106781186547524f;
    exponent -= low ? 1 : 0;
    m = (low ? m + m : m) - 1.0f;
    const float z = m * m, e = static_cast<float>(exponent);
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float y = m * z * p + e * -2.12194440e-4f - 0.5f * z;
    y = m + y + e * 0.693359375f;
    const float infinity = __builtin_inff();
    y = x == 0 ? -infinity : y;
    y = x < 0 ? __builtin_nanf("") : y;
    return x == infinity || x != x ? x : y;
}

// Relative error of some ulp: where 1 + x rounds, the logarithm is corrected by what was lost.
inline float logarithm_1p(float x) {
    const float u = 1.0f + x;
    const float lost = (u - 1.0f) - x;
    const float y = logarithm(u) - lost / u;
    return u == __builtin_inff() || u == 0 ? logarithm(u) : x == 0 ? x : y;
}

// x P(x^2) / Q(x^2), fitted for the least relative error, 2.1e-8, up to where the nearest float is 1.
// Relative error below 4e-7; numbers near 0 and NaN stay as they are.
inline float hyperbolic_tangent(float number) {
    constexpr float END = 9.02f;
    const float magnitude = __builtin_fabsf(number);
    const float x = END < magnitude ? END : magnitude, z = x * x;
    float p = 1.33171514e-8f, q = 7.76125189e-7f;
    p = p * z + 2.05821654e-5f, q = q * z + 3.28296593e-4f;
    p = p * z + 3.49395908e-3f, q = q * z + 2.58707921e-2f;
    p = p * z + 1.33796564e-1f, q = q * z + 4.67129718e-1f;
    p = p * z + 1.0f, q = q * z + 1.0f;
    const float y = x * p / q;
    return __builtin_copysignf(1.0f < y ? 1.0f : y, number); // rounding may step over 1
}

inline float logistic(float x) {
    const float e = exponential(-__builtin_fabsf(x));
    const float t = 1.0f / (1.0f + e);
    return x < 0 ? e * t : t; // neither form loses digits where it is taken
}

// Of the divisor's sign, as NumPy's. x - y * floor(x / y) would lose all digits where the quotient is large,
// and be NaN where the divisor is infinite.
inline float floored_remainder(float x, float y) {
    const float rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

inline float larger(float a, float b) { return b != b ? b : a < b ? b : a; }
inline float smaller(float a, float b) { return b != b ? b : a > b ? b : a; }

// An operation as a type: how many arguments it takes, whether its loop calls the C library, and the formula.
#define PLACERL_OPERATION(NAME, ARGUMENTS, SLOW, EXPRESSION)                                                 \
    struct NAME {                                                                                            \
        static constexpr int arguments = ARGUMENTS;                                                          \
        static constexpr bool slow = SLOW;                                                                   \
        static float of([[maybe_unused]] float x, [[maybe_unused]] float y, [[maybe_unused]] float z) {      \
            return EXPRESSION;                                                                               \
        }                                                                                                    \
    };

inline float truth(bool condition) { return condition ? 1.0f : 0.0f; }

namespace op {
PLACERL_OPERATION(copy, 1, false, x)
PLACERL_OPERATION(neg, 1, false, -x)
PLACERL_OPERATION(abs, 1, false, __builtin_fabsf(x))
PLACERL_OPERATION(sign, 1, false, x > 0 ? 1.0f : x < 0 ? -1.0f : x)
PLACERL_OPERATION(exp, 1, false, x != x ? x : x > 88.7228391f ? __builtin_inff() : exponential(x))
PLACERL_OPERATION(expm1, 1, true, std::expm1(x))
PLACERL_OPERATION(log, 1, false, logarithm(x))
PLACERL_OPERATION(log1p, 1, false, logarithm_1p(x))
PLACERL_OPERATION(sqrt, 1, false, __builtin_sqrtf(x))
PLACERL_OPERATION(rsqrt, 1, false, 1.0f / __builtin_sqrtf(x))
PLACERL_OPERATION(reciprocal, 1, false, 1.0f / x)
PLACERL_OPERATION(sin, 1, true, std::sin(x))
PLACERL_OPERATION(cos, 1, true, std::cos(x))
PLACERL_OPERATION(tanh, 1, false, hyperbolic_tangent(x))
PLACERL_OPERATION(sigmoid, 1, false, logistic(x))
PLACERL_OPERATION(erf, 1, true, std::erf(x))
PLACERL_OPERATION(floor, 1, false, __builtin_floorf(x))
PLACERL_OPERATION(ceil, 1, false, __builtin_ceilf(x))
PLACERL_OPERATION(round, 1, false, __builtin_rintf(x))
PLACERL_OPERATION(logical_not, 1, false, truth(x == 0))
PLACERL_OPERATION(add, 2, false, x + y)
PLACERL_OPERATION(sub, 2, false, x - y)
PLACERL_OPERATION(mul, 2, false, x *y)
PLACERL_OPERATION(div, 2, false, x / y)
PLACERL_OPERATION(pow, 2, true, std::pow(x, y))
PLACERL_OPERATION(maximum, 2, false, larger(x, y))
PLACERL_OPERATION(minimum, 2, false, smaller(x, y))
PLACERL_OPERATION(remainder, 2, true, floored_remainder(x, y))
PLACERL_OPERATION(lt, 2, false, truth(x < y))
PLACERL_OPERATION(le, 2, false, truth(x <= y))
PLACERL_OPERATION(gt, 2, false, truth(x > y))
PLACERL_OPERATION(ge, 2, false, truth(x >= y))
PLACERL_OPERATION(eq, 2, false, truth(x == y))
PLACERL_OPERATION(ne, 2, false, truth(x != y))
PLACERL_OPERATION(logical_and, 2, false, truth(x != 0 && y != 0))
PLACERL_OPERATION(logical_or, 2, false, truth(x != 0 || y != 0))
PLACERL_OPERATION(where, 3, false, x != 0 ? y : z)
PLACERL_OPERATION(multiply_add, 3, false, x *y + z)
PLACERL_OPERATION(multiply_subtract, 3, false, z - x * y)
} // namespace op

// Bits of SCALARS: the first, second, third argument is one number instead of n.
template <typename F, int SCALARS>
void elementwise_loop(float *d, const float *a, const float *b, const float *c, int n) {
    const float x = *a, y = F::arguments > 1 ? *b : 0.0f, z = F::arguments > 2 ? *c : 0.0f;
    const int end = F::slow ? n : (n + 15) & ~15;
    // Division by one number: a product takes a fraction of its time, and rounds once more. Not where the
    // reciprocal would be no normal number.
    if constexpr (std::is_same_v<F, op::div> && SCALARS == 2)
        if (__builtin_fabsf(y) > 1e-37f && __builtin_fabsf(y) < 1e37f) {
            const float reciprocal = 1.0f / y;
            return elementwise_loop<op::mul, 2>(d, a, &reciprocal, nullptr, n);
        }
#pragma GCC ivdep
    for (int i = 0; i < end; ++i)
        d[i] = F::of(SCALARS & 1 ? x : a[i], F::arguments > 1 ? SCALARS & 2 ? y : b[i] : 0.0f,
                     F::arguments > 2 ? SCALARS & 4 ? z : c[i] : 0.0f);
}

template <typename F, int SCALARS>
constexpr ElementwiseLoop loop_or_null() {
    constexpr int all = (1 << F::arguments) - 1;
    if constexpr (SCALARS < all || (all == 1 && SCALARS == 1)) // of one argument: of one number, n times
        return &elementwise_loop<F, SCALARS>;
    else
        return nullptr;
}
template <typename F>
constexpr std::array<ElementwiseLoop, 7> loops() {
    return {loop_or_null<F, 0>(), loop_or_null<F, 1>(), loop_or_null<F, 2>(), loop_or_null<F, 3>(),
            loop_or_null<F, 4>(), loop_or_null<F, 5>(), loop_or_null<F, 6>()};
}

template <typename Combine>
inline void reduce_rows(const float *x, long row, int rows, int columns, float *y, Vector start,
                        Combine combine) {
    for (int j = 0; j < columns; j += LANES) {
        const int lanes = std::min(LANES, columns - j);
        auto read = [&](int i) {
            const float *p = x + i * row + j;
            return lanes == LANES ? load(p) : load_part(p, lanes);
        };
        // Four chains, so that additions need not wait for each other.
        Vector total[4] = {start, start, start, start};
        int i = 0;
        for (; i + 4 <= rows; i += 4)
            for (int h = 0; h < 4; ++h)
                total[h] = combine(total[h], read(i + h));
        for (; i < rows; ++i)
            total[0] = combine(total[0], read(i));
        const Vector all = combine(combine(total[0], total[1]), combine(total[2], total[3]));
        if (lanes == LANES)
            store(y + j, all);
        else
            store_part(y + j, all, lanes);
    }
}

template <int CHAINS,
          typename Combine> // CHAINS independent partial results, which the compiler can vectorise
inline float reduce_in(const float *x, long n, float start, Combine combine) {
    float total[CHAINS];
    for (float &t : total)
        t = start;
    long i = 0;
    for (; i + CHAINS <= n; i += CHAINS)
        for (int h = 0; h < CHAINS; ++h)
            total[h] = combine(total[h], x[i + h]);
    for (int h = 0; i < n; ++i, ++h)
        total[h] = combine(total[h], x[i]);
    for (int width = CHAINS / 2; width > 0; width /= 2)
        for (int h = 0; h < width; ++h)
            total[h] = combine(total[h], total[h + width]);
    return total[0];
}

// Few numbers need no chain that stays empty: folding it would only add `start`, and the bits are the same.
template <typename Combine>
inline float reduce(const float *x, long n, float start, Combine combine) {
    return n <= 2    ? reduce_in<2>(x, n, start, combine)
           : n <= 4  ? reduce_in<4>(x, n, start, combine)
           : n <= 8  ? reduce_in<8>(x, n, start, combine)
           : n <= 16 ? reduce_in<16>(x, n, start, combine)
                     : reduce_in<64>(x, n, start, combine);
}

inline Vector lanewise(float (*f)(float, float), Vector a, Vector b) {
    float x[LANES], y[LANES];
    store(x, a), store(y, b);
    for (int i = 0; i < LANES; ++i)
        x[i] = f(x[i], y[i]);
    return load(x);
}

inline void sum_rows(const float *x, long row, int rows, int columns, float *y) {
    reduce_rows(x, row, rows, columns, y, splat(0.0f), [](Vector a, Vector b) { return add(a, b); });
}
inline void max_rows(const float *x, long row, int rows, int columns, float *y) {
    reduce_rows(x, row, rows, columns, y, splat(-__builtin_inff()),
                [](Vector a, Vector b) { return lanewise(larger, a, b); });
}
inline void min_rows(const float *x, long row, int rows, int columns, float *y) {
    reduce_rows(x, row, rows, columns, y, splat(__builtin_inff()),
                [](Vector a, Vector b) { return lanewise(smaller, a, b); });
}
inline float sum_all(const float *x, long n) {
    return reduce(x, n, 0.0f, [](float a, float b) { return a + b; });
}
inline float max_all(const float *x, long n) { return reduce(x, n, -__builtin_inff(), larger); }
inline float min_all(const float *x, long n) { return reduce(x, n, __builtin_inff(), smaller); }
inline bool all_finite(const float *x, long n) {
    std::int32_t bad = 0; // an exponent of all ones is infinity or NaN
    for (long i = 0; i < n; ++i)
        bad |= (to_bits(x[i]) & 0x7f800000) == 0x7f800000;
    return !bad;
}
