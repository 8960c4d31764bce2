// The operands of a matrix product.
#pragma once

namespace placerl {

// A (rows, depth) and B (depth, columns); strides in elements.
template <typename T>
struct Matrices {
    int rows, columns, depth;
    const T *a;
    long a_row, a_column;
    const T *b;
    long b_row, b_column;
};

} // namespace placerl
