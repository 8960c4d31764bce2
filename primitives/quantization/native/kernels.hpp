// What fixed-point step graphs call, one table an instruction set. All of them give the same bits.
#pragma once

#include <cstdint>

namespace placerl::quantization {

// C (rows, columns) = A (rows, depth) B (depth, columns) of integers, sums exact in 64 bits; strides in
// elements.
struct MatrixProduct {
    int rows, columns, depth;
    const int32_t *a;
    long a_row, a_column;
    const int32_t *b;
    long b_row, b_column;
};

// What becomes of the sums: C = saturate(round(sum / 2^places)), or of sum x factor where `scaled`.
struct Rounding {
    int32_t *c;
    long c_row, c_column;
    bool scaled;
    int places; // -62 .. 62
    double factor;
    int64_t lowest, highest;
};

// Element-wise operations on binary64: d[i] = op(a[i], b[i], c[i]), i < n. d may be a, b or c.
using ElementwiseFunction = void (*)(double *d, const double *a, const double *b, const double *c, long n);

enum class Op : int {
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
    tanh,
    sigmoid,
    floor,
    ceil,
    round,
    logical_not,
    add,
    sub,
    mul,
    div,
    maximum,
    minimum,
    lt,
    le,
    gt,
    ge,
    eq,
    ne,
    logical_and,
    logical_or,
    where,
    count
};
inline constexpr const char *OP_NAMES =
    "neg abs sign exp expm1 log log1p sqrt rsqrt reciprocal tanh sigmoid floor ceil round logical_not add "
    "sub "
    "mul div maximum minimum lt le gt ge eq ne logical_and logical_or where";

struct Kernels {
    const char *name;
    // 32 by 32 bits; returns how many results saturated. Workspace: `wide_workspace` int32.
    int64_t (*multiply_wide)(const MatrixProduct &, const Rounding &, int32_t *workspace);
    // 16 by 16 bits: every operand in [-2^15, 2^15), and `block` products (even) always fit 32 bits. Sums
    // also get what A's and B's offsets add: sum (a + a_offset)(b + b_offset). Workspace: `narrow_workspace`
    // int32.
    int64_t (*multiply_narrow)(const MatrixProduct &, const Rounding &, int32_t *workspace, int block,
                               int32_t a_offset, int32_t b_offset);
    // codes[i] = saturate(floor(raw[i] x factor)), i < n; returns how many saturated.
    int64_t (*codes)(const int32_t *raw, int32_t *codes, long n, double factor, double lowest,
                     double highest);
    // Extremes of n integers, widening what is there.
    void (*extremes)(const int32_t *values, long n, int32_t *low, int32_t *high);
    // sums[j] = sum of x[i row + j] over i < rows, j < columns.
    void (*sum_rows)(const int32_t *x, long row, long rows, long columns, int64_t *sums);
    ElementwiseFunction elementwise[static_cast<int>(Op::count)];
    // d[i] = raw[i] x step, i < n, contiguous.
    void (*load)(double *d, const int32_t *raw, long n, double step);
    // raw[i] = saturate(round(x[i] x scale)); returns how many saturated.
    int64_t (*store)(int32_t *raw, const double *x, long n, double scale, double lowest, double highest);
    // Do many multiply-adds of 32 by 32, and of 16 by 16 bits; return how many.
    double (*wide_block)(int64_t *result);
    double (*narrow_block)(int64_t *result);
};

inline long wide_workspace(const MatrixProduct &p) { return 16L * p.depth + 16; }
inline long narrow_workspace(const MatrixProduct &p) {
    const long pairs = (p.depth + 1) / 2;
    return pairs * p.rows + pairs * 32 + 2L * p.rows + 2 * 32 + 64 + 2L * 32 * 16;
}

const Kernels *portable_kernels();
const Kernels *avx2_kernels();   // null where not built or not usable on this processor
const Kernels *avx512_kernels(); // likewise
const Kernels *avx512vnni_kernels();

} // namespace placerl::quantization
