// What fixed-point step graphs call, one table an instruction set. All of them give the same bits.
#pragma once

#include <cstdint>
#include <vector>

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

// What becomes of the rounded results, row by row of C, on their way into it. At most one of the pointers is
// set.
struct Epilogue {
    const int32_t *bias = nullptr; // one for each column: C = saturate(max(0, C + bias))
    const int32_t *mask = nullptr; // C's layout: C = mask > 0 ? C : 0
    explicit operator bool() const { return bias || mask; }
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

// The same product of operands in digits. Sums fit 51 bits, the depth 2^15; `places` is not read.
struct DigitProduct {
    int rows = 0, columns = 0, depth = 0;
    Digits a = {}, b = {};
    // Of digit i of A and j of B: the pairs of neighbours along the depth where a block ends whose sums,
    // offsets included, fit 32 bits with 2^16 to spare. They grow to (depth + 1) / 2.
    std::vector<int> ends[Digits::MOST][Digits::MOST];
    bool within = false; // no result can leave int32 even doubled, nor the target's format
};

// One update by Adam, and the target's by Polyak averaging where there is one, as the algorithms'
// graphs have it (`primitives.algorithms.updates`), in binary64.
struct AdamUpdate {
    int32_t *parameter, *target; // target may be null
    const int32_t *gradient;
    float *mean, *square;
    const double *rate, *root_correction; // of this step
    double weight_step, gradient_step;    // what 1 stands for
    double weight_scale, lowest, highest; // of the weights' format
    double mean_kept, mean_taken, square_kept, square_taken, epsilon, tau;
};

struct Kernels {
    const char *name;
    // Both return how many results saturated. Workspace: `wide_workspace`, `digit_workspace` int32.
    int64_t (*multiply_wide)(const MatrixProduct &, const Rounding &, const Epilogue &, int32_t *workspace);
    int64_t (*multiply_digits)(const DigitProduct &, const Rounding &, const Epilogue &, int32_t *workspace);
    // Of each SPAN neighbours along the depth: the largest sum of magnitudes |x + offset| of any line of an
    // operand of one digit, `lines` of `length`.
    void (*magnitude_sums)(const Digits &, long lines, long length, int64_t *sums);
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
    // The same of floats.
    int64_t (*store_from_floats)(int32_t *raw, const float *x, long n, double scale, double lowest,
                                 double highest);
    // How many parameters, and how many targets, saturated is added.
    void (*adam)(const AdamUpdate &, long n, int64_t *parameters_saturated, int64_t *targets_saturated);
    // y[i] = saturate(max(0, x[i] + bias[i])), i < n; returns how many saturated.
    int64_t (*add_rectify)(int32_t *y, const int32_t *x, const int32_t *bias, long n, int32_t highest);
    // y[i] = x[i] 2^places + bias[i] <= 0 ? 0 : g[i], i < n; bias may be null.
    void (*mask)(int32_t *y, const int32_t *x, const int32_t *bias, const int32_t *g, long n, int places);
    // Do many multiply-adds of 32 by 32, and of 16 by 16 bits; return how many.
    double (*wide_block)(int64_t *result);
    double (*narrow_block)(int64_t *result);
};

constexpr int SPAN = 64; // see `magnitude_sums`

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
