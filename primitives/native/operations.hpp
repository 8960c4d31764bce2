// The operations of element-wise programs, as step graphs name them.
#pragma once

namespace placerl {

// X(name) for each that every executor has, and for those that floats have beside them.
#define PLACERL_COMMON_OPERATIONS(X)                                                                         \
    X(neg)                                                                                                   \
    X(abs)                                                                                                   \
    X(sign)                                                                                                  \
    X(exp)                                                                                                   \
    X(expm1)                                                                                                 \
    X(log)                                                                                                   \
    X(log1p)                                                                                                 \
    X(sqrt)                                                                                                  \
    X(rsqrt)                                                                                                 \
    X(reciprocal)                                                                                            \
    X(tanh)                                                                                                  \
    X(sigmoid)                                                                                               \
    X(floor)                                                                                                 \
    X(ceil)                                                                                                  \
    X(round)                                                                                                 \
    X(logical_not)                                                                                           \
    X(add)                                                                                                   \
    X(sub)                                                                                                   \
    X(mul)                                                                                                   \
    X(div)                                                                                                   \
    X(maximum)                                                                                               \
    X(minimum)                                                                                               \
    X(lt)                                                                                                    \
    X(le)                                                                                                    \
    X(gt)                                                                                                    \
    X(ge)                                                                                                    \
    X(eq)                                                                                                    \
    X(ne)                                                                                                    \
    X(logical_and)                                                                                           \
    X(logical_or)                                                                                            \
    X(where)
// The last two: a b + c, and c - a b.
#define PLACERL_FLOAT_OPERATIONS(X)                                                                          \
    X(copy)                                                                                                  \
    X(sin)                                                                                                   \
    X(cos)                                                                                                   \
    X(erf)                                                                                                   \
    X(pow)                                                                                                   \
    X(remainder)                                                                                             \
    X(multiply_add)                                                                                          \
    X(multiply_subtract)

#define PLACERL_ENUMERATOR(name) name,
#define PLACERL_ONE(name) +1
#define PLACERL_NAME(name) #name " "
enum class Op : int {
    PLACERL_COMMON_OPERATIONS(PLACERL_ENUMERATOR) PLACERL_FLOAT_OPERATIONS(PLACERL_ENUMERATOR) count
};
inline constexpr int COMMON_OPERATIONS = PLACERL_COMMON_OPERATIONS(PLACERL_ONE);
// In the order of `Op`, a blank behind each.
inline constexpr const char *COMMON_NAMES = PLACERL_COMMON_OPERATIONS(PLACERL_NAME);
inline constexpr const char *OPERATION_NAMES =
    PLACERL_COMMON_OPERATIONS(PLACERL_NAME) PLACERL_FLOAT_OPERATIONS(PLACERL_NAME);
#undef PLACERL_ENUMERATOR
#undef PLACERL_ONE
#undef PLACERL_NAME

// d[i] = op(a[i], b[i], c[i]) for i < n. d may be a, b or c.
template <typename T, typename Count>
using ElementwiseFunction = void (*)(T *d, const T *a, const T *b, const T *c, Count n);

} // namespace placerl
