// Exact products of integer matrices, 32 by 32 bits with sums of 64. Included once per instruction set.
//
// B goes into panels of 16 columns; a tile of C is ROWS x 16 sums. vpmuldq multiplies the even lanes alone,
// so the odd ones are shifted down beside them.

inline int64_t round_tile(const Rounding &r, const int64_t *sums, int rows, int columns, int width, long row,
                          long column) {
    int64_t saturated = 0;
    for (int i = 0; i < rows; ++i) {
        int32_t line[64];
        saturated += round_line(r, sums + i * width, columns, line);
        int32_t *c = r.c + (row + i) * r.c_row + column * r.c_column;
        if (r.c_column == 1)
            std::memcpy(c, line, columns * sizeof(int32_t));
        else
            for (int j = 0; j < columns; ++j)
                c[j * r.c_column] = line[j];
    }
    return saturated;
}

template <int ROWS>
inline void wide_tile(const MatrixProduct &p, int row, const int32_t *panel, int64_t *sums) {
    const int32_t *a = p.a + row * p.a_row;
#if defined(__AVX512F__)
    __m512i even[ROWS], odd[ROWS];
    for (int i = 0; i < ROWS; ++i)
        even[i] = odd[i] = _mm512_setzero_si512();
    for (int k = 0; k < p.depth; ++k) {
        const __m512i b_even = _mm512_loadu_si512(panel + k * PANEL);
        const __m512i b_odd = _mm512_srli_epi64(b_even, 32);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; ++i) {
            const __m512i x = _mm512_set1_epi32(a[i * p.a_row]);
            even[i] = _mm512_add_epi64(even[i], _mm512_mul_epi32(x, b_even));
            odd[i] = _mm512_add_epi64(odd[i], _mm512_mul_epi32(x, b_odd));
        }
        a += p.a_column;
    }
    const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    for (int i = 0; i < ROWS; ++i) {
        _mm512_storeu_si512(sums + i * PANEL, _mm512_permutex2var_epi64(even[i], low, odd[i]));
        _mm512_storeu_si512(sums + i * PANEL + 8, _mm512_permutex2var_epi64(even[i], high, odd[i]));
    }
#elif defined(__AVX2__)
    __m256i even[ROWS][2], odd[ROWS][2];
    for (int i = 0; i < ROWS; ++i)
        for (int h = 0; h < 2; ++h)
            even[i][h] = odd[i][h] = _mm256_setzero_si256();
    for (int k = 0; k < p.depth; ++k) {
        for (int h = 0; h < 2; ++h) {
            const __m256i b_even =
                _mm256_loadu_si256(reinterpret_cast<const __m256i *>(panel + k * PANEL + 8 * h));
            const __m256i b_odd = _mm256_srli_epi64(b_even, 32);
            for (int i = 0; i < ROWS; ++i) {
                const __m256i x = _mm256_set1_epi32(a[i * p.a_row]);
                even[i][h] = _mm256_add_epi64(even[i][h], _mm256_mul_epi32(x, b_even));
                odd[i][h] = _mm256_add_epi64(odd[i][h], _mm256_mul_epi32(x, b_odd));
            }
        }
        a += p.a_column;
    }
    for (int i = 0; i < ROWS; ++i)
        for (int h = 0; h < 2; ++h) {
            int64_t e[4], o[4];
            std::memcpy(e, &even[i][h], sizeof e);
            std::memcpy(o, &odd[i][h], sizeof o);
            for (int j = 0; j < 4; ++j) {
                sums[i * PANEL + 8 * h + 2 * j] = e[j];
                sums[i * PANEL + 8 * h + 2 * j + 1] = o[j];
            }
        }
#else
    for (int i = 0; i < ROWS * PANEL; ++i)
        sums[i] = 0;
    for (int k = 0; k < p.depth; ++k) {
        for (int i = 0; i < ROWS; ++i) {
            const int64_t x = a[i * p.a_row];
            for (int j = 0; j < PANEL; ++j)
                sums[i * PANEL + j] += x * panel[k * PANEL + j];
        }
        a += p.a_column;
    }
#endif
}

#if defined(__AVX512F__)
constexpr int WIDE_ROWS = 14;
#else
constexpr int WIDE_ROWS = 3;
#endif

template <int... ROWS>
constexpr auto wide_tiles(std::integer_sequence<int, ROWS...>) {
    using Function = void (*)(const MatrixProduct &, int, const int32_t *, int64_t *);
    return std::array<Function, sizeof...(ROWS)>{&wide_tile<ROWS + 1>...};
}

// How many of the rows left the next tile takes: dealt out evenly.
inline int tile_rows(int left, int most) {
    const int tiles = (left + most - 1) / most;
    return (left + tiles - 1) / tiles;
}

// What follows a product, on a line of C.
inline int64_t finish_line(const Rounding &r, const Epilogue &then, long row, long column, int columns) {
    int32_t *c = r.c + row * r.c_row + column;
    if (then.bias)
        return add_rectify(c, c, then.bias + column, columns, static_cast<int32_t>(r.highest));
    if (then.mask)
        mask_positive(c, then.mask + row * r.c_row + column, nullptr, c, columns, 0);
    return 0;
}

inline int64_t multiply_wide(const MatrixProduct &p, const Rounding &r, const Epilogue &then,
                             int32_t *panel) {
    constexpr auto TILES = wide_tiles(std::make_integer_sequence<int, WIDE_ROWS>{});
    int64_t saturated = 0;
    alignas(64) int64_t sums[WIDE_ROWS * PANEL];
    for (int column = 0; column < p.columns; column += PANEL) {
        const int columns = std::min(PANEL, p.columns - column);
        pack_wide(p, column, columns, panel);
        for (int row = 0; row < p.rows;) {
            const int rows = tile_rows(p.rows - row, WIDE_ROWS);
            TILES[rows - 1](p, row, panel, sums);
            saturated += round_tile(r, sums, rows, columns, PANEL, row, column);
            for (int i = 0; then && i < rows; ++i)
                saturated += finish_line(r, then, row + i, column, columns);
            row += rows;
        }
    }
    return saturated;
}

// Multiply-adds of tiles that lie in the first-level cache: what the core can do at most. Returns how many;
// the result keeps the compiler from leaving them out.
inline double wide_block(int64_t *result) {
    constexpr int DEPTH = 128, ROUNDS = 200;
    int32_t panel[DEPTH * PANEL], a[WIDE_ROWS * DEPTH];
    std::fill_n(panel, DEPTH * PANEL, static_cast<int32_t>(result[0]));
    std::fill_n(a, WIDE_ROWS * DEPTH, static_cast<int32_t>(result[0]));
    alignas(64) int64_t sums[WIDE_ROWS * PANEL];
    auto *volatile tile = &wide_tile<WIDE_ROWS>; // a call that is not seen through
    const MatrixProduct p{WIDE_ROWS, PANEL, DEPTH, a, DEPTH, 1, nullptr, 0, 0};
    for (int round = 0; round < ROUNDS; ++round) {
        tile(p, 0, panel, sums);
        a[0] = static_cast<int32_t>(sums[round % PANEL] & 1);
    }
    result[0] += a[0];
    return double(WIDE_ROWS) * PANEL * DEPTH * ROUNDS;
}
