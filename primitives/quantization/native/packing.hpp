// Operands laid out as the products read them. Included once per instruction set.

constexpr int PANEL = 16;

#if defined(__AVX512F__)
// rows[i] becomes column i of the 16 x 16 block.
inline void transpose_words(__m512i (&r)[16]) {
    __m512i t[16], u[16];
    for (int i = 0; i < 8; ++i) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; ++i) {
        u[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_i32x4(u[i], u[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(u[i], u[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(u[8 + i], u[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(u[8 + i], u[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}
#endif

// panel[k * PANEL + j] = b[k, column + j], zero beyond.
inline void pack_wide(const MatrixProduct &p, int column, int columns, int32_t *panel) {
    const int32_t *b = p.b + column * p.b_column;
    if (p.b_column == 1 && columns == PANEL) {
        for (int k = 0; k < p.depth; ++k)
            std::memcpy(panel + k * PANEL, b + k * p.b_row, PANEL * sizeof(int32_t));
        return;
    }
    int k = 0;
#if defined(__AVX512F__)
    if (p.b_row == 1 && columns == PANEL)
        for (; k + 16 <= p.depth; k += 16) {
            __m512i block[16];
            for (int j = 0; j < 16; ++j)
                block[j] = _mm512_loadu_si512(b + j * p.b_column + k);
            transpose_words(block);
            for (int j = 0; j < 16; ++j)
                _mm512_storeu_si512(panel + (k + j) * PANEL, block[j]);
        }
#endif
    for (; k < p.depth; ++k)
        for (int j = 0; j < PANEL; ++j)
            panel[k * PANEL + j] = j < columns ? b[k * p.b_row + j * p.b_column] : 0;
}

// Neighbours along the depth in the halves of a word, less the offset; 0 beyond the depth.
inline void pairs_along(const int32_t *x, int depth, int32_t offset, int32_t *words) {
    auto *halves = reinterpret_cast<int16_t *>(words);
    static_assert(std::endian::native == std::endian::little);
    for (int k = 0; k < depth; ++k)
        halves[k] = static_cast<int16_t>(x[k] - offset);
    if (depth % 2)
        halves[depth] = 0;
}
// The same for two rows of the depth; `next` is null beyond it.
inline void pairs_across(const int32_t *x, const int32_t *next, long step, int count, int32_t offset,
                         int32_t *words) {
    for (int i = 0; i < count; ++i) {
        const uint32_t low = static_cast<uint16_t>(x[i * step] - offset);
        const uint32_t high = next ? static_cast<uint16_t>(next[i * step] - offset) : 0;
        words[i] = static_cast<int32_t>(low | high << 16);
    }
}

// panel[k * width + j] = the pair (b[2k, column + j], b[2k + 1, column + j]), zero beyond.
inline void pack_narrow(const MatrixProduct &p, int column, int columns, int width, int32_t offset,
                        int32_t *panel) {
    const int pairs = (p.depth + 1) / 2;
    const int32_t *b = p.b + column * p.b_column;
    if (columns < width)
        std::memset(panel, 0, static_cast<size_t>(pairs) * width * sizeof(int32_t));
    int k = 0;
#if defined(__AVX512F__)
    if (p.b_row == 1) {
        const __m512i shift = _mm512_set1_epi32(offset);
        for (; 2 * k + 32 <= p.depth; k += 16)
            for (int j = 0; j < columns; j += 16) {
                const int lanes = std::min(16, columns - j);
                __m512i block[16] = {};
                for (int i = 0; i < lanes; ++i) {
                    const int32_t *x = b + (j + i) * p.b_column + 2 * k;
                    const __m512i first = _mm512_sub_epi32(_mm512_loadu_si512(x), shift);
                    const __m512i second = _mm512_sub_epi32(_mm512_loadu_si512(x + 16), shift);
                    block[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)),
                                                  _mm512_cvtepi32_epi16(second), 1);
                }
                transpose_words(block);
                for (int i = 0; i < 16; ++i)
                    _mm512_storeu_si512(panel + (k + i) * width + j, block[i]);
            }
    }
#endif
    for (; k < pairs; ++k) {
        const int32_t *x = b + 2L * k * p.b_row;
        const int32_t *next = 2 * k + 1 < p.depth ? x + p.b_row : nullptr;
        if (p.b_column == 1)
            pairs_across(x, next, 1, columns, offset, panel + k * width);
        else
            pairs_across(x, next, p.b_column, columns, offset, panel + k * width);
    }
}
