// What follows a layer's product, in integers: bias and ReLU, and ReLU's derivative. The same numbers as the
// vector unit's programs give, with twice the lanes. Included once per instruction set.

inline int64_t add_rectify(int32_t *y, const int32_t *x, const int32_t *bias, long n, int32_t highest) {
    int32_t saturated = 0;
#pragma GCC ivdep
    for (long i = 0; i < n; ++i) {
        const int32_t b = bias[i];
        const auto sum = static_cast<int32_t>(static_cast<uint32_t>(x[i]) + static_cast<uint32_t>(b));
        // Both have one sign, and the sum another: it left 32 bits.
        const int32_t left = ((x[i] ^ sum) & (b ^ sum)) >> 31;
        const int32_t end = (b >> 31) ^ 0x7fffffff;
        const int32_t whole = (left & end) | (~left & sum);
        const int32_t rectified = whole > 0 ? whole : 0;
        y[i] = rectified < highest ? rectified : highest;
        const int32_t above = rectified > highest ? -1 : 0;
        saturated -= above | (left & ~(b >> 31));
    }
    return saturated;
}

// `bias` may be null: all zeros.
inline void mask_positive(int32_t *y, const int32_t *x, const int32_t *bias, const int32_t *g, long n,
                          int places) {
    if (!bias) {
#pragma GCC ivdep
        for (long i = 0; i < n; ++i)
            y[i] = x[i] <= 0 ? 0 : g[i];
        return;
    }
#pragma GCC ivdep
    for (long i = 0; i < n; ++i)
        y[i] = int64_t(x[i]) * (int64_t(1) << places) + bias[i] <= 0 ? 0 : g[i];
}
