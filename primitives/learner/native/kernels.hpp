// What the executor of step graphs calls, one table an instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace placerl::learner {

// C (rows, columns) = A (rows, depth) B (depth, columns); strides in elements. C's rows are contiguous.
struct MatrixProduct {
    int rows, columns, depth;
    const float *a;
    long a_row, a_column;
    const float *b;
    long b_row, b_column;
    float *c;
    long c_row;
    // What follows the product, in this order; each pointer may be null.
    const float *column_bias; // added: one for each column
    const float *row_bias;    // added: one for each row
    bool rectify;             // negative elements become 0
    const float *mask;        // C's layout: elements become 0 where it is not positive
};

// Floats of workspace that `multiply` needs: one packed panel of B.
constexpr std::size_t MULTIPLY_WORKSPACE = 320 * 128;

// Element-wise operations: d[i] = op(a[i], b[i], c[i]) for i < n. They may read and write whole groups of 16
// elements, so that arrays must have room up to the next multiple of 16. d may be a, b or c.
using ElementwiseFunction = void (*)(float *d, const float *a, const float *b, const float *c, int n);

enum class Op : int {
    copy,
    neg,
    abs,
    sign,
    exp,
    expm1,
    log,
    log1p,
    sqrt,
    rsqrt,
    reciprocal,
    sin,
    cos,
    tanh,
    sigmoid,
    erf,
    floor,
    ceil,
    round,
    logical_not,
    add,
    sub,
    mul,
    div,
    pow,
    maximum,
    minimum,
    remainder,
    lt,
    le,
    gt,
    ge,
    eq,
    ne,
    logical_and,
    logical_or,
    where,
    multiply_add,      // a b + c
    multiply_subtract, // c - a b
    count
};
// In the order of `Op`, separated by blanks: the names that the step graph has for them.
inline constexpr const char *OP_NAMES =
    "copy neg abs sign exp expm1 log log1p sqrt rsqrt reciprocal sin cos tanh sigmoid erf floor ceil round "
    "logical_not add sub mul div pow maximum minimum remainder lt le gt ge eq ne logical_and logical_or "
    "where "
    "multiply_add multiply_subtract";

// y[j] = reduction of x[i * row + j] over i < rows, for j < columns.
using ReduceRowsFunction = void (*)(const float *x, long row, int rows, int columns, float *y);
// The reduction of x[i], i < n.
using ReduceFunction = float (*)(const float *x, long n);

struct Kernels {
    const char *name;
    void (*multiply)(const MatrixProduct &, float *workspace);
    // [op][bits of the arguments that are one number instead of n]; null where every argument would be.
    std::array<ElementwiseFunction, 7> elementwise[static_cast<int>(Op::count)];
    ReduceRowsFunction sum_rows, max_rows, min_rows;
    ReduceFunction sum, max, min;
    bool (*all_finite)(const float *x, long n);
    // Does many independent multiply-adds, and returns how many operations they are.
    double (*multiply_add_block)(float *result);
};

const Kernels *portable_kernels();
const Kernels *avx2_kernels();   // null where not built or not usable on this processor
const Kernels *avx512_kernels(); // likewise

} // namespace placerl::learner
