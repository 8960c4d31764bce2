// What the executor of step graphs calls, one table an instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "native/matrices.hpp"
#include "native/operations.hpp"

namespace placerl::learner {

// How a product goes through its operands. No choice changes a bit of the result.
struct Blocking {
    bool pack_a = false; // copies blocks of A to tiles, where A's depth is not contiguous
    bool pack_b = false; // copies panels of B, also where B's rows are contiguous
    bool broad = false;  // tiles of three vectors and fewer rows instead of two vectors
};

// C (rows, columns) = A (rows, depth) B (depth, columns). C's rows are contiguous.
struct MatrixProduct : Matrices<float> {
    float *c;
    long c_row;
    // What follows the product, in this order; each pointer may be null.
    const float *column_bias; // added: one for each column
    const float *row_bias;    // added: one for each row
    bool rectify;             // negative elements become 0
    const float *mask;        // C's layout: elements become 0 where it is not positive
    Blocking blocking;
};

// Floats of workspace that `multiply` needs: one packed panel of B, and a packed block of A.
constexpr std::size_t MULTIPLY_WORKSPACE = 320 * 128 + 73728;

// They may read and write whole groups of 16 elements, so that arrays must have room up to the next multiple
// of 16.
using ElementwiseLoop = ElementwiseFunction<float, int>;

// y[j] = reduction of x[i * row + j] over i < rows, for j < columns.
using ReduceRowsFunction = void (*)(const float *x, long row, int rows, int columns, float *y);
// The reduction of x[i], i < n.
using ReduceFunction = float (*)(const float *x, long n);

// How an executor multiplies matrices.
struct Multiplier {
    const char *name;
    std::size_t workspace; // floats that a product needs
    void (*multiply)(const MatrixProduct &, float *workspace);
    // Does many independent multiply-adds, and returns how many operations they are.
    double (*multiply_add_block)(float *result);
};

struct Kernels {
    const char *name;
    void (*multiply)(const MatrixProduct &, float *workspace);
    // The same of operands rounded to bfloat16, with sums in float32.
    void (*multiply_bfloat16)(const MatrixProduct &, float *workspace);
    // [op][bits of the arguments that are one number instead of n]; null where every argument would be.
    std::array<ElementwiseLoop, 7> elementwise[static_cast<int>(Op::count)];
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
