// Vectors of words of 32 bits, each a sum or a pair of 16-bit halves. Included once per instruction set.

// Modulo 2^32, as vectors add.
inline int32_t wrapping_sum(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
inline int32_t wrapping_product(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

#if defined(__AVX512F__)
constexpr int TILE_ROWS = 14, LANES = 16;
using Words = __m512i;
inline Words zero_words() { return _mm512_setzero_si512(); }
inline Words load_words(const void *p) { return _mm512_loadu_si512(p); }
inline void store_words(void *p, Words x) { _mm512_storeu_si512(p, x); }
inline Words splat_words(int32_t x) { return _mm512_set1_epi32(x); }
#if defined(__AVX512VNNI__)
inline Words multiply_add(Words a, Words b, Words c) { return _mm512_dpwssd_epi32(c, a, b); }
#else
inline Words multiply_add(Words a, Words b, Words c) { return _mm512_add_epi32(c, _mm512_madd_epi16(a, b)); }
#endif
inline Words add_words(Words a, Words b) { return _mm512_add_epi32(a, b); }
inline Words upper_halves(Words x) { return _mm512_srai_epi32(x, 16); }
inline Words lower_halves(Words x) { return _mm512_and_si512(x, _mm512_set1_epi32(0xffff)); }
inline void add_scaled(double *sums, Words x, double scale) {
    const __m512d s = _mm512_set1_pd(scale);
    const __m512d low = _mm512_cvtepi32_pd(_mm512_castsi512_si256(x));
    const __m512d high = _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(x, 1));
    _mm512_storeu_pd(sums, _mm512_fmadd_pd(low, s, _mm512_loadu_pd(sums)));
    _mm512_storeu_pd(sums + 8, _mm512_fmadd_pd(high, s, _mm512_loadu_pd(sums + 8)));
}
inline int32_t sum_lanes(Words x) { return _mm512_reduce_add_epi32(x); }
// y = round((lower + 65536 upper) x half of `twice`); nothing leaves int32 even doubled. `upper` may be null.
// Ties upwards: floor(z + 1/2) = floor((floor(2 z) + 1) / 2).
inline Words round_words(const int32_t *lower, const int32_t *upper, double twice) {
    constexpr int FLOOR = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    const __m512d factor = _mm512_set1_pd(twice), carried = _mm512_set1_pd(65536);
    const auto numbers = [](const int32_t *p) {
        return _mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
    };
    const auto doubled = [&](int half) {
        __m512d sum = numbers(lower + half);
        if (upper)
            sum = _mm512_fmadd_pd(numbers(upper + half), carried, sum);
        return _mm512_cvt_roundpd_epi32(_mm512_mul_pd(sum, factor), FLOOR);
    };
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(doubled(0)), doubled(8), 1);
    return _mm512_srai_epi32(_mm512_add_epi32(both, _mm512_set1_epi32(1)), 1);
}
inline __mmask16 first_words(int count) {
    return static_cast<__mmask16>(count >= LANES ? 0xffff : (1 << count) - 1);
}
// Of fewer than LANES; whole vectors are faster without a mask.
inline Words load_first(const int32_t *p, int count) {
    return _mm512_maskz_loadu_epi32(first_words(count), p);
}
inline Words first_of(Words x, int count) { return _mm512_maskz_mov_epi32(first_words(count), x); }
inline void store_first(int32_t *p, Words x, int count) {
    _mm512_mask_storeu_epi32(p, first_words(count), x);
}
inline Words keep_where_positive(Words mask, Words x) {
    return _mm512_maskz_mov_epi32(_mm512_cmpgt_epi32_mask(mask, _mm512_setzero_si512()), x);
}
// max(0, x + bias) as `add_rectify` has it; both are within half of int32.
inline Words rectify_words(Words x, Words bias, int32_t limit, int64_t &saturated) {
    const Words highest = splat_words(limit);
    const Words whole = _mm512_max_epi32(_mm512_add_epi32(x, bias), _mm512_setzero_si512());
    saturated += __builtin_popcount(_mm512_cmpgt_epi32_mask(whole, highest));
    return _mm512_min_epi32(whole, highest);
}
// The pairs (x[i], y[i]) of COLUMNS halves each.
inline void interleave(const int16_t *x, const int16_t *y, int32_t *words) {
    const __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(y);
    const __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    _mm512_storeu_si512(words, _mm512_permutex2var_epi64(low, first, high));
    _mm512_storeu_si512(words + 16, _mm512_permutex2var_epi64(low, second, high));
}
#elif defined(__AVX2__)
constexpr int TILE_ROWS = 6, LANES = 8;
using Words = __m256i;
inline Words zero_words() { return _mm256_setzero_si256(); }
inline Words load_words(const void *p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
inline void store_words(void *p, Words x) { _mm256_storeu_si256(static_cast<__m256i *>(p), x); }
inline Words splat_words(int32_t x) { return _mm256_set1_epi32(x); }
inline Words multiply_add(Words a, Words b, Words c) { return _mm256_add_epi32(c, _mm256_madd_epi16(a, b)); }
inline Words add_words(Words a, Words b) { return _mm256_add_epi32(a, b); }
inline Words upper_halves(Words x) { return _mm256_srai_epi32(x, 16); }
inline Words lower_halves(Words x) { return _mm256_and_si256(x, _mm256_set1_epi32(0xffff)); }
inline void add_scaled(double *sums, Words x, double scale) {
    const __m256d s = _mm256_set1_pd(scale);
    const __m256d low = _mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(x)), s);
    const __m256d high = _mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(x, 1)), s);
    _mm256_storeu_pd(sums, _mm256_add_pd(low, _mm256_loadu_pd(sums)));
    _mm256_storeu_pd(sums + 4, _mm256_add_pd(high, _mm256_loadu_pd(sums + 4)));
}
#else
constexpr int TILE_ROWS = 6, LANES = 8;
struct Words {
    int32_t v[LANES];
};
inline Words zero_words() { return {}; }
inline Words load_words(const void *p) {
    Words r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
}
inline void store_words(void *p, Words x) { std::memcpy(p, x.v, sizeof x.v); }
inline Words splat_words(int32_t x) {
    Words r;
    for (int32_t &v : r.v)
        v = x;
    return r;
}
inline Words multiply_add(Words a, Words b, Words c) {
    for (int i = 0; i < LANES; ++i) {
        const int32_t low = static_cast<int16_t>(a.v[i]) * static_cast<int16_t>(b.v[i]);
        const int32_t high = (a.v[i] >> 16) * (b.v[i] >> 16);
        c.v[i] = wrapping_sum(c.v[i], wrapping_sum(low, high));
    }
    return c;
}
inline Words add_words(Words a, Words b) {
    for (int i = 0; i < LANES; ++i)
        a.v[i] = wrapping_sum(a.v[i], b.v[i]);
    return a;
}
inline Words upper_halves(Words x) {
    for (int32_t &v : x.v)
        v >>= 16;
    return x;
}
inline Words lower_halves(Words x) {
    for (int32_t &v : x.v)
        v &= 0xffff;
    return x;
}
inline void add_scaled(double *sums, Words x, double scale) {
    for (int i = 0; i < LANES; ++i)
        sums[i] += x.v[i] * scale;
}
#endif
constexpr int COLUMNS = 2 * LANES; // of a panel, and of a tile
#if !defined(__AVX512F__)
inline int32_t sum_lanes(Words x) {
    int32_t lanes[LANES], total = 0;
    store_words(lanes, x);
    for (int32_t one : lanes)
        total = wrapping_sum(total, one);
    return total;
}
template <typename Function>
inline Words for_lanes(Words x, Function f) {
    int32_t lanes[LANES];
    store_words(lanes, x);
    for (int i = 0; i < LANES; ++i)
        lanes[i] = f(lanes[i], i);
    return load_words(lanes);
}
inline Words round_words(const int32_t *lower, const int32_t *upper, double twice) {
    return for_lanes(load_words(lower), [&](int32_t x, int i) {
        const double sum = upper ? x + upper[i] * 65536.0 : x;
        // Values beyond the last column are arbitrary.
        return static_cast<int32_t>(
            std::clamp(round_half_up(sum * (twice / 2)), -2147483648.0, 2147483647.0));
    });
}
inline Words load_first(const int32_t *p, int count) {
    return for_lanes(zero_words(), [&](int32_t, int i) { return i < count ? p[i] : 0; });
}
inline Words first_of(Words x, int count) {
    return for_lanes(x, [&](int32_t one, int i) { return i < count ? one : 0; });
}
inline void store_first(int32_t *p, Words x, int count) {
    for_lanes(x, [&](int32_t one, int i) { return i < count ? p[i] = one : one; });
}
inline Words keep_where_positive(Words mask, Words x) {
    int32_t lanes[LANES];
    store_words(lanes, mask);
    return for_lanes(x, [&](int32_t one, int i) { return lanes[i] > 0 ? one : 0; });
}
inline Words rectify_words(Words x, Words bias, int32_t highest, int64_t &saturated) {
    return for_lanes(add_words(x, bias), [&](int32_t sum, int) {
        saturated += sum > highest;
        return std::clamp(sum, 0, highest);
    });
}
inline void interleave(const int16_t *x, const int16_t *y, int32_t *words) {
    for (int i = 0; i < COLUMNS; ++i)
        words[i] = static_cast<int32_t>(static_cast<uint16_t>(x[i]) | static_cast<uint32_t>(y[i]) << 16);
}
#endif
