// What fixed-point step graphs call, one table an instruction set. All of them give the same bits.
#pragma once

#include <cstdint>

#include "native/matrices.hpp"
#include "native/operations.hpp"

namespace placerl::quantization {

// C (rows, columns) = A (rows, depth) B (depth, columns) of integers, sums exact in 64 bits.
using MatrixProduct = Matrices<int32_t>;

// What becomes of the sums: C = saturate(round(sum / 2^places)), or of sum x factor where `scaled`; ties
// upwards.
struct Rounding {
    int32_t *c;
    long c_row, c_column;
    bool scaled;
    int places; // -62 .. 62
    double factor;
    int64_t lowest, highest;
};

// One operand in digits of at most 16 bits: x = offset + sum over i of planes[i] 2^(i bits). Plane by plane,
// line by line: lines lie along the operand's own memory, which runs along the product's sum (`along_depth`)
// or across it. `line` is a multiple of 32; behind a line's end there are zeros up to there, behind the last
// line a line of them.
struct Digits {
    static constexpr int MOST = 3;
    const int16_t *planes;
    long plane, line;
    int count, bits;
    bool along_depth;
    int32_t offset;
};

// The same product of operands in digits. `block[i][j]`, even: so many products of digit i of A and digit j
// of B always fit 32 bits. Sums fit 51 bits, the depth 2^15; `places` is not read.
struct DigitProduct {
    int rows, columns, depth;
    Digits a, b;
    int block[Digits::MOST][Digits::MOST];
    bool within; // no result can leave int32 even doubled, nor the target's format
};

struct Kernels {
    const char *name;
    // Both return how many results saturated. Workspace: `wide_workspace`, `digit_workspace` int32.
    int64_t (*multiply_wide)(const MatrixProduct &, const Rounding &, int32_t *workspace);
    int64_t (*multiply_digits)(const DigitProduct &, const Rounding &, int32_t *workspace);
    // codes[i] = saturate(floor(raw[i] x factor)), i < n; returns how many saturated.
    int64_t (*codes)(const int32_t *raw, int32_t *codes, long n, double factor, double lowest,
                     double highest);
    // The same less `offset`, which brings them into 16 bits.
    int64_t (*short_codes)(const int32_t *raw, int16_t *codes, long n, double factor, int32_t lowest,
                           int32_t highest, int32_t offset);
    // planes[i plane + j] = digit i of x[j] - offset, j < n.
    void (*split)(const int32_t *x, long n, int32_t offset, int count, int bits, int16_t *planes, long plane);
    // Extremes of n integers, widening what is there.
    void (*extremes)(const int32_t *values, long n, int32_t *low, int32_t *high);
    // y[j] = the sum of x[i row + j] over i < rows, rounded as `Rounding` says (its c, with c_row apart); j <
    // columns. Returns how many saturated.
    int64_t (*sum_rows)(const int32_t *x, long row, long rows, long columns, const Rounding &);
    ElementwiseFunction<double, long> elementwise[COMMON_OPERATIONS];
    // d[i] = raw[i] x step, i < n, contiguous.
    void (*load)(double *d, const int32_t *raw, long n, double step);
    void (*load_floats)(double *d, const float *x, long n);
    void (*store_floats)(float *y, const double *d, long n);
    // raw[i] = saturate(round(x[i] x scale)); returns how many saturated.
    int64_t (*store)(int32_t *raw, const double *x, long n, double scale, double lowest, double highest);
    // y[i] = saturate(max(0, x[i] + bias[i])), i < n; returns how many saturated.
    int64_t (*add_rectify)(int32_t *y, const int32_t *x, const int32_t *bias, long n, int32_t highest);
    // y[i] = x[i] 2^places + bias[i] <= 0 ? 0 : g[i], i < n; bias may be null.
    void (*mask)(int32_t *y, const int32_t *x, const int32_t *bias, const int32_t *g, long n, int places);
    // Do many multiply-adds of 32 by 32, and of 16 by 16 bits; return how many.
    double (*wide_block)(int64_t *result);
    double (*narrow_block)(int64_t *result);
};

inline long wide_workspace(const MatrixProduct &p) { return 16L * p.depth + 16; }
inline long digit_workspace(const DigitProduct &p) {
    const long pairs = p.depth / 2 + 1, rows = p.rows + 31L;
    return Digits::MOST * pairs * (rows + 32) + 64;
}

const Kernels *portable_kernels();
const Kernels *avx2_kernels();   // null where not built or not usable on this processor
const Kernels *avx512_kernels(); // likewise
const Kernels *avx512vnni_kernels();

} // namespace placerl::quantization
