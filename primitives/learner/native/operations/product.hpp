// Matrix products, one or a batch of them.
#pragma once

#include <vector>

#include "learner/native/kernels.hpp"
#include "learner/native/ranges.hpp"

namespace placerl::learner {

struct Product {
    MatrixProduct product;
    long batch = 1; // matrices that follow each other at these strides
    long a_batch = 0, b_batch = 0, c_batch = 0;

    void run(const Multiplier &multiplier, float *workspace) const {
        MatrixProduct p = product;
        for (long i = 0; i < batch; ++i) {
            multiplier.multiply(p, workspace);
            p.a += a_batch, p.b += b_batch, p.c += c_batch;
        }
    }

    // About how long it takes on one core: a multiply-add at 80 GFLOP/s, and writing an element of C.
    double cost_ns() const {
        const double elements = static_cast<double>(batch) * product.rows * product.columns;
        return elements * (0.025 * product.depth + 0.2);
    }

    // The product in at most so many parts: by matrices of the batch where that is even, else along C's
    // longer side, so that the larger operand is read by one thread alone. Every element is computed as in
    // the whole.
    std::vector<Product> split(int parts) const {
        std::vector<Product> made;
        if (batch % parts == 0) {
            for (const auto &[first, size] : ranges(batch, 1, parts))
                made.push_back(matrices(first, size));
            return made;
        }
        // Few rows and few columns would be taken as dot products, which round in another way.
        constexpr int DOTS = 16, LEAST_ROWS = 4, COLUMNS = 32;
        const int least = product.columns <= DOTS ? DOTS + 1 : LEAST_ROWS;
        const auto by_rows = ranges(product.rows, 1, std::min(parts, product.rows / least));
        const auto by_columns = ranges(product.columns, COLUMNS, parts);
        const bool taller = product.rows >= product.columns;
        if (by_rows.size() > by_columns.size() || (by_rows.size() == by_columns.size() && taller))
            for (const auto &[first, size] : by_rows)
                made.push_back(rows(first, size));
        else
            for (const auto &[first, size] : by_columns)
                made.push_back(columns(first, size));
        return made;
    }

  private:
    Product matrices(long first, long size) const {
        Product part = *this;
        part.product.a += first * a_batch, part.product.b += first * b_batch;
        part.product.c += first * c_batch;
        part.batch = size;
        return part;
    }

    Product rows(long first, long size) const {
        Product part = *this;
        MatrixProduct &p = part.product;
        p.rows = static_cast<int>(size);
        p.a += first * p.a_row;
        p.c += first * p.c_row;
        p.row_bias = p.row_bias ? p.row_bias + first : nullptr;
        p.mask = p.mask ? p.mask + first * p.c_row : nullptr;
        return part;
    }

    Product columns(long first, long size) const {
        Product part = *this;
        MatrixProduct &p = part.product;
        p.columns = static_cast<int>(size);
        p.b += first * p.b_column;
        p.c += first;
        p.column_bias = p.column_bias ? p.column_bias + first : nullptr;
        p.mask = p.mask ? p.mask + first : nullptr;
        return part;
    }
};

} // namespace placerl::learner
