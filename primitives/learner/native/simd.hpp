// One float vector of the widest kind that the translation unit is compiled for. Included once per
// instruction set, inside a namespace of its own; see kernels_body.hpp.
#if defined(__AVX512F__)

constexpr int LANES = 16;
constexpr int TILE_ROWS = 14; // 14 x 2 accumulators, 2 vectors of B and 1 of A fill the 32 registers
struct Vector {
    __m512 v;
};
inline Vector load(const float *p) { return {_mm512_loadu_ps(p)}; }
inline Vector load_part(const float *p, int count) {
    return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p)};
}
inline void store(float *p, Vector a) { _mm512_storeu_ps(p, a.v); }
inline void store_part(float *p, Vector a, int count) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), a.v);
}
inline Vector splat(float x) { return {_mm512_set1_ps(x)}; }
inline Vector fma(Vector a, Vector b, Vector c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vector add(Vector a, Vector b) { return {_mm512_add_ps(a.v, b.v)}; }
inline float sum(Vector a) { return _mm512_reduce_add_ps(a.v); }
// a where x > 0, else 0; x that is NaN counts as positive, as PyTorch's threshold_backward has it.
inline Vector keep_if_positive(Vector x, Vector a) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_NLE_UQ), a.v)};
}
// The larger of a and 0; NaN stays NaN (maxps gives its second operand then).
inline Vector positive_part(Vector a) { return {_mm512_max_ps(_mm512_setzero_ps(), a.v)}; }
// Each number rounded to the nearest bfloat16, to even where two are as near, as the processors' instructions
// do it: numbers too small to be normal are zero, and NaN is a quiet one.
inline Vector to_bfloat16(Vector a) {
    const __m512i bits = _mm512_castps_si512(a.v);
    const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
    const __m512i kept = _mm512_and_si512(up, _mm512_set1_epi32(static_cast<int>(0xffff0000)));
    const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    const __mmask16 normal =
        _mm512_cmpge_epu32_mask(_mm512_slli_epi32(bits, 1), _mm512_set1_epi32(0x01000000));
    return {_mm512_castsi512_ps(
        _mm512_mask_mov_epi32(_mm512_maskz_mov_epi32(normal, kept), nan, _mm512_set1_epi32(0x7fc00000)))};
}
// rows[i] becomes column i of the LANES x LANES block.
inline void transpose(Vector (&r)[LANES]) {
    __m512 t[16], u[16];
    for (int i = 0; i < 8; ++i) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
    }
    for (int i = 0; i < 4; ++i) {
        u[4 * i] = _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        u[4 * i + 2] = _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_f32x4(u[i], u[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_f32x4(u[i], u[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_f32x4(u[8 + i], u[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_f32x4(u[8 + i], u[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        r[i].v = _mm512_shuffle_f32x4(t[i], t[8 + i], 0x88);
        r[4 + i].v = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0x88);
        r[8 + i].v = _mm512_shuffle_f32x4(t[i], t[8 + i], 0xdd);
        r[12 + i].v = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

#elif defined(__AVX2__)

constexpr int LANES = 8;
constexpr int TILE_ROWS = 6; // 6 x 2 accumulators in 16 registers
struct Vector {
    __m256 v;
};
inline __m256i first_lanes(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vector load(const float *p) { return {_mm256_loadu_ps(p)}; }
inline Vector load_part(const float *p, int count) { return {_mm256_maskload_ps(p, first_lanes(count))}; }
inline void store(float *p, Vector a) { _mm256_storeu_ps(p, a.v); }
inline void store_part(float *p, Vector a, int count) { _mm256_maskstore_ps(p, first_lanes(count), a.v); }
inline Vector splat(float x) { return {_mm256_set1_ps(x)}; }
inline Vector fma(Vector a, Vector b, Vector c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vector add(Vector a, Vector b) { return {_mm256_add_ps(a.v, b.v)}; }
inline float sum(Vector a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline Vector keep_if_positive(Vector x, Vector a) {
    return {_mm256_and_ps(_mm256_cmp_ps(x.v, _mm256_setzero_ps(), _CMP_NLE_UQ), a.v)};
}
inline Vector positive_part(Vector a) { return {_mm256_max_ps(_mm256_setzero_ps(), a.v)}; }
inline Vector to_bfloat16(Vector a) {
    const __m256i bits = _mm256_castps_si256(a.v);
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
    const __m256i kept = _mm256_and_si256(up, _mm256_set1_epi32(static_cast<int>(0xffff0000)));
    // Without their signs the bits compare as integers do.
    const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000),
                                             _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
    const __m256 normal = _mm256_castsi256_ps(_mm256_andnot_si256(small, kept));
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return {_mm256_blendv_ps(normal, nan, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))};
}
inline void transpose(Vector (&r)[LANES]) {
    __m256 t[8], u[8];
    for (int i = 0; i < 4; ++i) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
    }
    for (int i = 0; i < 2; ++i) {
        u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
        r[i].v = _mm256_permute2f128_ps(u[i], u[4 + i], 0x20);
        r[4 + i].v = _mm256_permute2f128_ps(u[i], u[4 + i], 0x31);
    }
}

#else

constexpr int LANES = 4;
constexpr int TILE_ROWS = 6;
typedef float FloatVector __attribute__((vector_size(16)));
struct Vector {
    FloatVector v;
};
inline Vector load(const float *p) {
    Vector r;
    __builtin_memcpy(&r.v, p, sizeof r.v);
    return r;
}
inline Vector load_part(const float *p, int count) {
    Vector r = {FloatVector{}};
    __builtin_memcpy(&r.v, p, count * sizeof(float));
    return r;
}
inline void store(float *p, Vector a) { __builtin_memcpy(p, &a.v, sizeof a.v); }
inline void store_part(float *p, Vector a, int count) { __builtin_memcpy(p, &a.v, count * sizeof(float)); }
inline Vector splat(float x) { return {FloatVector{x, x, x, x}}; }
inline Vector fma(Vector a, Vector b, Vector c) { return {a.v * b.v + c.v}; }
inline Vector add(Vector a, Vector b) { return {a.v + b.v}; }
inline float sum(Vector a) { return (a.v[0] + a.v[1]) + (a.v[2] + a.v[3]); }
inline Vector keep_if_positive(Vector x, Vector a) {
    Vector r;
    for (int i = 0; i < LANES; ++i)
        r.v[i] = x.v[i] <= 0 ? 0 : a.v[i];
    return r;
}
inline Vector positive_part(Vector a) {
    Vector r;
    for (int i = 0; i < LANES; ++i)
        r.v[i] = a.v[i] < 0 ? 0 : a.v[i];
    return r;
}
inline Vector to_bfloat16(Vector a) {
    Vector r;
    for (int i = 0; i < LANES; ++i) {
        const float x = a.v[i];
        const auto bits = std::bit_cast<std::uint32_t>(x);
        const std::uint32_t kept = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
        const std::uint32_t rounded = (bits & 0x7fffffff) < 0x00800000 ? 0 : kept;
        r.v[i] = std::bit_cast<float>(x != x ? 0x7fc00000 : rounded);
    }
    return r;
}
inline void transpose(Vector (&r)[LANES]) {
    for (int i = 0; i < LANES; ++i)
        for (int j = 0; j < i; ++j) {
            const float x = r[i].v[j];
            r[i].v[j] = r[j].v[i];
            r[j].v[i] = x;
        }
}

#endif
