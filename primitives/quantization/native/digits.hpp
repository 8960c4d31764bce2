// Operands cut into digits of at most 16 bits. Included once per instruction set.

// All digits but the highest are in [-2^(bits - 1), 2^(bits - 1)).
inline void split_digits(const int32_t *x, long n, int32_t offset, int count, int bits, int16_t *planes,
                         long plane) {
    if (count == 1) {
        for (long j = 0; j < n; ++j)
            planes[j] = static_cast<int16_t>(x[j] - offset);
        return;
    }
    const uint32_t half = 1u << (bits - 1), mask = (1u << bits) - 1;
    for (long j = 0; j < n; ++j) {
        int32_t rest = x[j];
        for (int i = 0; i + 1 < count; ++i) {
            // The sum may wrap: its low bits are right all the same.
            const uint32_t low = (static_cast<uint32_t>(rest) + half) & mask;
            planes[i * plane + j] = static_cast<int16_t>(low - half);
            rest = (rest >> bits) + (rest >> (bits - 1) & 1);
        }
        planes[(count - 1) * plane + j] = static_cast<int16_t>(rest);
    }
}

inline int64_t short_codes(const int32_t *raw, int16_t *codes, long n, double factor, int32_t lowest,
                           int32_t highest, int32_t offset) {
    int64_t saturated = 0;
    long j = 0;
#if defined(__AVX512F__)
    // Beyond 2^31 the conversion gives -2^31, where what is far above the codes must stay above.
    const __m512d f = _mm512_set1_pd(factor), limit = _mm512_set1_pd(2147483647.0);
    const bool large = factor > 0.999;
    const __m512i low = _mm512_set1_epi32(lowest), high = _mm512_set1_epi32(highest),
                  shift = _mm512_set1_epi32(offset);
    const auto coded = [&](__m512i x, __mmask16 lanes) __attribute__((always_inline)) {
        __m512d first = _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(x)), f);
        __m512d second = _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(x, 1)), f);
        if (large)
            first = _mm512_min_pd(first, limit), second = _mm512_min_pd(second, limit);
        constexpr int FLOOR = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
        const __m512i whole =
            _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvt_roundpd_epi32(first, FLOOR)),
                               _mm512_cvt_roundpd_epi32(second, FLOOR), 1);
        const __m512i clipped = _mm512_min_epi32(_mm512_max_epi32(whole, low), high);
        saturated += __builtin_popcount(_mm512_mask_cmpneq_epi32_mask(lanes, clipped, whole));
        return _mm512_cvtepi32_epi16(_mm512_maskz_sub_epi32(lanes, clipped, shift));
    };
    auto *target = reinterpret_cast<__m256i *>(codes);
    for (; j + 16 <= n; j += 16)
        _mm256_storeu_si256(target++, coded(_mm512_loadu_si512(raw + j), 0xffff));
    if (j < n) {
        const auto lanes = static_cast<__mmask16>((1 << (n - j)) - 1);
        _mm256_storeu_si256(target, coded(_mm512_maskz_loadu_epi32(lanes, raw + j), lanes));
    }
#else
    for (; j < n; ++j) {
        int32_t code;
        saturated += saturate(std::floor(raw[j] * factor), lowest, highest, &code);
        codes[j] = static_cast<int16_t>(code - offset);
    }
#endif
    return saturated;
}

// The pairs of lines 2k and 2k + 1 that lie across the depth: words[k words_line + j], j < count; whole
// vectors are written.
inline void pairs_across(const int16_t *plane, long line, int depth, int count, long words_line,
                         int32_t *words) {
    for (int k = 0; k < depth; k += 2) // behind the last line there is one of zeros
        for (int j = 0; j < count; j += COLUMNS)
            interleave(plane + k * line + j, plane + (k + 1) * line + j, words + k / 2 * words_line + j);
}

// panel[k COLUMNS + j] = the pair (b[2k, column + j], b[2k + 1, column + j]), zero beyond.
inline void pack_panel(const Digits &b, int digit, int depth, int column, int columns, int32_t *panel) {
    const int16_t *plane = b.planes + digit * b.plane;
    if (!b.along_depth)
        return pairs_across(plane + column, b.line, depth, columns, COLUMNS, panel);
    const int pairs = (depth + 1) / 2;
    const int16_t *lines = plane + column * b.line;
    int k = 0;
#if defined(__AVX512F__)
    // Lines are padded to 32 halves.
    for (; k < pairs; k += 16)
        for (int j = 0; j < columns; j += 16) {
            const int lanes = std::min(16, columns - j), rows = std::min(16, pairs - k);
            __m512i block[16] = {};
            for (int i = 0; i < lanes; ++i)
                block[i] = _mm512_loadu_si512(lines + (j + i) * b.line + 2 * k);
            transpose_words(block);
            for (int i = 0; i < rows; ++i)
                _mm512_storeu_si512(panel + (k + i) * COLUMNS + j, block[i]);
        }
#endif
    for (; k < pairs; ++k)
        for (int j = 0; j < COLUMNS; ++j) {
            int32_t word = 0;
            if (j < columns)
                std::memcpy(&word, lines + j * b.line + 2 * k, sizeof word);
            panel[k * COLUMNS + j] = word;
        }
}
