// The vector unit's operations (`vector_unit.py` defines them), as loops that the compiler vectorises.
// Included once per instruction set. Contraction must be off: a fused multiply-add would give other bits.

constexpr double LOG2_E = 1.4426950408889634, LN2_HIGH = 0.6931471803691238, LN2_LOW = 1.9082149292705877e-10;
constexpr double EXP_LIMIT = 700.0, SQUARE_ROOT_2 = 1.4142135623730951;
constexpr double FACTORIALS[] = {1.0,    1.0,     2.0,      6.0,       24.0,       120.0,       720.0,
                                 5040.0, 40320.0, 362880.0, 3628800.0, 39916800.0, 479001600.0, 6227020800.0};
constexpr int EXP_TERMS = 13, LOG_TERMS = 10;

inline double exponential(double x) {
    x = x < -EXP_LIMIT ? -EXP_LIMIT : x > EXP_LIMIT ? EXP_LIMIT : x;
    const double k = std::floor(x * LOG2_E + 0.5);
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double total = r * 0.0 + 1.0 / FACTORIALS[EXP_TERMS];
#pragma GCC unroll 16
    for (int n = EXP_TERMS - 1; n >= 0; --n)
        total = total * r + 1.0 / FACTORIALS[n];
    // NaN has no whole part; its result is NaN through `total`.
    const int64_t whole = k == k ? static_cast<int64_t>(k) : 0;
    return total * std::bit_cast<double>((whole + 1023) << 52);
}

inline double logarithm(double x) {
    const int64_t bits = std::bit_cast<int64_t>(x);
    double mantissa = std::bit_cast<double>((bits & ((int64_t(1) << 52) - 1)) | (int64_t(1023) << 52));
    const int64_t exponent = ((bits >> 52) & 2047) - 1023;
    const bool large = mantissa > SQUARE_ROOT_2;
    mantissa = large ? mantissa * 0.5 : mantissa;
    const double e = static_cast<double>(exponent) + (large ? 1.0 : 0.0);
    const double s = (mantissa - 1.0) / (mantissa + 1.0);
    const double z = s * s;
    double total = z * 0.0 + 1.0 / (2 * LOG_TERMS + 1);
#pragma GCC unroll 16
    for (int n = LOG_TERMS - 1; n >= 0; --n)
        total = total * z + 1.0 / (2 * n + 1);
    const double value = e * LN2_HIGH + (2.0 * s * total + e * LN2_LOW);
    if (x == 0)
        return x * 0.0 - std::numeric_limits<double>::infinity();
    return x > 0 ? value : std::numeric_limits<double>::quiet_NaN();
}

inline double hyperbolic_tangent(double x) {
    const double size = 1.0 - 2.0 / (exponential(2.0 * std::fabs(x)) + 1.0);
    return x < 0 ? -size : size;
}

template <typename Function>
inline void each1(double *d, const double *a, long n, Function f) {
#pragma GCC ivdep
    for (long i = 0; i < n; ++i)
        d[i] = f(a[i]);
}
template <typename Function>
inline void each2(double *d, const double *a, const double *b, long n, Function f) {
#pragma GCC ivdep
    for (long i = 0; i < n; ++i)
        d[i] = f(a[i], b[i]);
}

#define UNARY(name, expression)                                                                              \
    inline void op_##name(double *d, const double *a, const double *, const double *, long n) {              \
        each1(d, a, n, [](double x) { return static_cast<double>(expression); });                            \
    }
#define BINARY(name, expression)                                                                             \
    inline void op_##name(double *d, const double *a, const double *b, const double *, long n) {             \
        each2(d, a, b, n, [](double x, double y) { return static_cast<double>(expression); });               \
    }

UNARY(neg, -x)
UNARY(abs, std::fabs(x))
UNARY(sign, x != x ? x : static_cast<double>(x > 0) - static_cast<double>(x < 0))
UNARY(exp, exponential(x))
UNARY(expm1, exponential(x) - 1.0)
UNARY(log, logarithm(x))
UNARY(log1p, logarithm(1.0 + x))
UNARY(sqrt, std::sqrt(x))
UNARY(rsqrt, 1.0 / std::sqrt(x))
UNARY(reciprocal, 1.0 / x)
UNARY(tanh, hyperbolic_tangent(x))
UNARY(sigmoid, 1.0 / (1.0 + exponential(-x)))
UNARY(floor, std::floor(x))
UNARY(ceil, std::ceil(x))
UNARY(round, std::nearbyint(x))
UNARY(logical_not, x == 0)
BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x *y)
BINARY(div, x / y)
BINARY(maximum, x > y || x != x ? x : y)
BINARY(minimum, x < y || x != x ? x : y)
BINARY(lt, x < y)
BINARY(le, x <= y)
BINARY(gt, x > y)
BINARY(ge, x >= y)
BINARY(eq, x == y)
BINARY(ne, x != y)
BINARY(logical_and, x != 0 && y != 0)
BINARY(logical_or, x != 0 || y != 0)
#undef UNARY
#undef BINARY

inline void op_where(double *d, const double *a, const double *b, const double *c, long n) {
#pragma GCC ivdep
    for (long i = 0; i < n; ++i)
        d[i] = a[i] != 0 ? b[i] : c[i];
}

inline void load_raw(double *d, const int32_t *raw, long n, double step) {
    for (long i = 0; i < n; ++i)
        d[i] = raw[i] * step;
}

inline void load_floats(double *d, const float *x, long n) {
#pragma GCC ivdep
    for (long i = 0; i < n; ++i)
        d[i] = x[i];
}
inline void store_floats(float *y, const double *d, long n) {
#pragma GCC ivdep
    for (long i = 0; i < n; ++i)
        y[i] = static_cast<float>(d[i]);
}

// To the nearest, ties upwards; NaN stays NaN.
inline double round_half_up(double x) {
    const double below = std::floor(x);
    return below + (x - below >= 0.5 ? 1.0 : 0.0);
}
// Returns whether it saturated; NaN becomes 0, and counts.
inline int64_t saturate(double whole, double lowest, double highest, int32_t *raw) {
    const double clipped = whole < lowest ? lowest : whole > highest ? highest : whole;
    *raw = static_cast<int32_t>(clipped == clipped ? clipped : 0.0);
    return !(clipped == whole);
}

inline void find_extremes(const int32_t *values, long n, int32_t *low, int32_t *high) {
    int32_t l = *low, h = *high;
    for (long i = 0; i < n; ++i) {
        l = values[i] < l ? values[i] : l;
        h = values[i] > h ? values[i] : h;
    }
    *low = l, *high = h;
}
