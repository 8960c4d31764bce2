// Matrix products, one or a batch of them.
#pragma once

#include "learner/native/kernels.hpp"

namespace placerl::learner {

struct Product {
    MatrixProduct product;
    long batch = 1; // matrices that follow each other at these strides
    long a_batch = 0, b_batch = 0, c_batch = 0;

    void run(const Kernels &kernels, float *workspace) const {
        MatrixProduct p = product;
        for (long i = 0; i < batch; ++i) {
            kernels.multiply(p, workspace);
            p.a += a_batch, p.b += b_batch, p.c += c_batch;
        }
    }
};

} // namespace placerl::learner
