// Rounding and saturation on their way into int32, and the sums of columns, which compilers vectorise badly.
// Included once per instruction set; what has no vectors here is in vector_unit.hpp as plain loops.

#if defined(__AVX512F__)

// Whole numbers, NaN among them, to int32 in [lowest, highest]; adds the lanes that change to `saturated`.
inline __m256i saturate_lanes(__m512d whole, __m512d lowest, __m512d highest, __mmask8 lanes,
                              int64_t &saturated) {
    const __m512d clipped = _mm512_min_pd(_mm512_max_pd(whole, lowest), highest);
    saturated += __builtin_popcount(_mm512_mask_cmp_pd_mask(lanes, clipped, whole, _CMP_NEQ_UQ));
    const __mmask8 numbers = _mm512_cmp_pd_mask(whole, whole, _CMP_ORD_Q);
    return _mm512_cvttpd_epi32(_mm512_maskz_mov_pd(numbers, clipped));
}
inline __m512d floor_lanes(__m512d x) {
    return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
inline __m512d round_half_up_lanes(__m512d x) {
    const __m512d below = floor_lanes(x);
    const __mmask8 up = _mm512_cmp_pd_mask(_mm512_sub_pd(x, below), _mm512_set1_pd(0.5), _CMP_GE_OQ);
    return _mm512_mask_add_pd(below, up, below, _mm512_set1_pd(1.0));
}
inline __mmask8 first_lanes(long count) {
    return static_cast<__mmask8>(count >= 8 ? 0xff : (1 << count) - 1);
}

inline int64_t store_raw(int32_t *raw, const double *x, long n, double scale, double lowest, double highest) {
    const __m512d s = _mm512_set1_pd(scale), low = _mm512_set1_pd(lowest), high = _mm512_set1_pd(highest);
    int64_t saturated = 0;
    for (long i = 0; i < n; i += 8) {
        const __mmask8 lanes = first_lanes(n - i);
        const __m512d y = _mm512_mul_pd(_mm512_maskz_loadu_pd(lanes, x + i), s);
        _mm256_mask_storeu_epi32(raw + i, lanes,
                                 saturate_lanes(round_half_up_lanes(y), low, high, lanes, saturated));
    }
    return saturated;
}

// A line of a product's sums, exact in binary64: C[row, column ..] = saturate(round(sum x factor)). `within`:
// no result can leave int32 even doubled, nor the format.
inline int64_t round_sums(const Rounding &r, const double *sums, int columns, bool within, long row,
                          long column) {
    int32_t *c = r.c + row * r.c_row + column * r.c_column;
    int32_t line[32];
    const bool dense = r.c_column == 1;
    int32_t *target = dense ? c : line;
    int64_t saturated = 0;
    if (within) {
        // floor(x + 1/2) = floor((floor(2 x) + 1) / 2)
        const __m512d twice = _mm512_set1_pd(2 * r.factor);
        constexpr int FLOOR = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
        for (int j = 0; j < columns; j += 16) {
            const __m256i low =
                _mm512_cvt_roundpd_epi32(_mm512_mul_pd(_mm512_loadu_pd(sums + j), twice), FLOOR);
            const __m256i high =
                _mm512_cvt_roundpd_epi32(_mm512_mul_pd(_mm512_loadu_pd(sums + j + 8), twice), FLOOR);
            const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
            const __m512i rounded = _mm512_srai_epi32(_mm512_add_epi32(both, _mm512_set1_epi32(1)), 1);
            if (columns - j >= 16)
                _mm512_storeu_si512(target + j, rounded);
            else
                _mm512_mask_storeu_epi32(target + j, static_cast<__mmask16>((1 << (columns - j)) - 1),
                                         rounded);
        }
    } else {
        saturated = store_raw(target, sums, columns, r.factor, static_cast<double>(r.lowest),
                              static_cast<double>(r.highest));
    }
    if (!dense)
        for (int j = 0; j < columns; ++j)
            c[j * r.c_column] = line[j];
    return saturated;
}

inline int64_t make_codes(const int32_t *raw, int32_t *codes, long n, double factor, double lowest,
                          double highest) {
    const __m512d f = _mm512_set1_pd(factor), low = _mm512_set1_pd(lowest), high = _mm512_set1_pd(highest);
    int64_t saturated = 0;
    for (long i = 0; i < n; i += 8) {
        const __mmask8 lanes = first_lanes(n - i);
        const __m512d y = _mm512_mul_pd(_mm512_cvtepi32_pd(_mm256_maskz_loadu_epi32(lanes, raw + i)), f);
        _mm256_mask_storeu_epi32(codes + i, lanes,
                                 saturate_lanes(floor_lanes(y), low, high, lanes, saturated));
    }
    return saturated;
}

// One line of a product's sums, rounded as `r` says.
inline int64_t round_line(const Rounding &r, const int64_t *sums, int columns, int32_t *line) {
    int64_t saturated = 0;
    if (r.scaled) {
        const __m512d factor = _mm512_set1_pd(r.factor);
        const __m512d low = _mm512_set1_pd(static_cast<double>(r.lowest));
        const __m512d high = _mm512_set1_pd(static_cast<double>(r.highest));
        for (int j = 0; j < columns; j += 8) {
            const __m512d x = _mm512_mul_pd(_mm512_cvtepi64_pd(_mm512_loadu_si512(sums + j)), factor);
            const __m256i y =
                saturate_lanes(round_half_up_lanes(x), low, high, first_lanes(columns - j), saturated);
            _mm256_storeu_si256(reinterpret_cast<__m256i *>(line + j), y);
        }
        return saturated;
    }
    // To the right: the bit behind the point is added after the shift. To the left: what would leave the
    // format is clipped before it.
    const bool right = r.places > 0;
    const __m128i places = _mm_cvtsi32_si128(right ? r.places : -r.places);
    const __m128i behind = _mm_cvtsi32_si128(right ? r.places - 1 : 0);
    const __m512i low = _mm512_set1_epi64(right ? r.lowest : r.lowest >> -r.places);
    const __m512i high = _mm512_set1_epi64(right ? r.highest : r.highest >> -r.places);
    const __m512i lowest = _mm512_set1_epi64(r.lowest), highest = _mm512_set1_epi64(r.highest);
    const __m512i one = _mm512_set1_epi64(1);
    for (int j = 0; j < columns; j += 8) {
        __m512i x = _mm512_loadu_si512(sums + j);
        if (right)
            x = _mm512_add_epi64(_mm512_sra_epi64(x, places),
                                 _mm512_and_si512(_mm512_sra_epi64(x, behind), one));
        const __mmask8 below = _mm512_cmplt_epi64_mask(x, low), above = _mm512_cmpgt_epi64_mask(x, high);
        saturated += __builtin_popcount((below | above) & first_lanes(columns - j));
        if (!right)
            x = _mm512_sll_epi64(x, places);
        x = _mm512_mask_mov_epi64(_mm512_mask_mov_epi64(x, below, lowest), above, highest);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(line + j), _mm512_cvtepi64_epi32(x));
    }
    return saturated;
}

inline int64_t sum_rows(const int32_t *x, long row, long rows, long columns, const Rounding &r) {
    int64_t saturated = 0;
    for (long j = 0; j < columns; j += 16) { // a cache line at a time
        const auto lanes = static_cast<__mmask16>(columns - j >= 16 ? 0xffff : (1 << (columns - j)) - 1);
        __m512i low = _mm512_setzero_si512(), high = low;
        for (long i = 0; i < rows; ++i) {
            const __m512i line = _mm512_maskz_loadu_epi32(lanes, x + i * row + j);
            low = _mm512_add_epi64(low, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(line)));
            high = _mm512_add_epi64(high, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(line, 1)));
        }
        alignas(64) int64_t sums[16];
        _mm512_store_si512(sums, low);
        _mm512_store_si512(sums + 8, high);
        const int count = static_cast<int>(std::min(16L, columns - j));
        int32_t line[16];
        saturated += round_line(r, sums, count, line);
        for (int i = 0; i < count; ++i)
            r.c[(j + i) * r.c_column] = line[i];
    }
    return saturated;
}

#else

inline int64_t store_raw(int32_t *raw, const double *x, long n, double scale, double lowest, double highest) {
    int64_t saturated = 0;
    for (long i = 0; i < n; ++i)
        saturated += saturate(round_half_up(x[i] * scale), lowest, highest, raw + i);
    return saturated;
}

inline int64_t round_sums(const Rounding &r, const double *sums, int columns, bool within, long row,
                          long column) {
    int32_t line[32];
    const int64_t saturated = store_raw(line, sums, columns, r.factor, static_cast<double>(r.lowest),
                                        static_cast<double>(r.highest));
    for (int j = 0; j < columns; ++j)
        r.c[row * r.c_row + (column + j) * r.c_column] = line[j];
    return within ? 0 : saturated;
}

inline int64_t make_codes(const int32_t *raw, int32_t *codes, long n, double factor, double lowest,
                          double highest) {
    int64_t saturated = 0;
    for (long i = 0; i < n; ++i)
        saturated += saturate(std::floor(raw[i] * factor), lowest, highest, codes + i);
    return saturated;
}

inline int64_t round_line(const Rounding &r, const int64_t *sums, int columns, int32_t *line) {
    int64_t saturated = 0;
    if (r.scaled) {
        const double lowest = static_cast<double>(r.lowest), highest = static_cast<double>(r.highest);
        for (int j = 0; j < columns; ++j)
            saturated +=
                saturate(round_half_up(static_cast<double>(sums[j]) * r.factor), lowest, highest, line + j);
    } else if (r.places > 0) {
        for (int j = 0; j < columns; ++j) {
            const int64_t x = (sums[j] >> r.places) + (sums[j] >> (r.places - 1) & 1);
            const int64_t y = x < r.lowest ? r.lowest : x > r.highest ? r.highest : x;
            saturated += x != y;
            line[j] = static_cast<int32_t>(y);
        }
    } else {
        const int64_t low = r.lowest >> -r.places, high = r.highest >> -r.places;
        for (int j = 0; j < columns; ++j) {
            const bool below = sums[j]<low, above = sums[j]> high;
            saturated += below || above;
            line[j] = static_cast<int32_t>(below   ? r.lowest
                                           : above ? r.highest
                                                   : sums[j] * (int64_t(1) << -r.places));
        }
    }
    return saturated;
}

inline int64_t sum_rows(const int32_t *x, long row, long rows, long columns, const Rounding &r) {
    int64_t saturated = 0;
    for (long j = 0; j < columns; j += 16) {
        const int count = static_cast<int>(std::min(16L, columns - j));
        int64_t sums[16] = {};
        for (long i = 0; i < rows; ++i)
            for (int k = 0; k < count; ++k)
                sums[k] += x[i * row + j + k];
        int32_t line[16];
        saturated += round_line(r, sums, count, line);
        for (int k = 0; k < count; ++k)
            r.c[(j + k) * r.c_column] = line[k];
    }
    return saturated;
}

#endif

inline int64_t store_from_floats(int32_t *raw, const float *x, long n, double scale, double lowest,
                                 double highest) {
    double block[128];
    int64_t saturated = 0;
    for (long i = 0; i < n; i += 128) {
        const long count = std::min(128L, n - i);
        load_floats(block, x + i, count);
        saturated += store_raw(raw + i, block, count, scale, lowest, highest);
    }
    return saturated;
}
