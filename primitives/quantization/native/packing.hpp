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
