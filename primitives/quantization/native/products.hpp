// Exact products of integer matrices. Included once per instruction set.
//
// Wide (32 by 32 bits): B goes into panels of 16 columns; a tile of C is ROWS x 16 sums of 64 bits. vpmuldq
// multiplies the even lanes alone, so the odd ones are shifted down beside them.
// Narrow (16 by 16 bits): A and B go into pairs along the depth, for vpmaddwd or vpdpwssd; a tile is ROWS x 2
// vectors of sums of 32 bits, which are widened to 64 after `block` products, before they could overflow.

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

inline int64_t multiply_wide(const MatrixProduct &p, const Rounding &r, int32_t *panel) {
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
            row += rows;
        }
    }
    return saturated;
}

#if defined(__AVX512F__)
constexpr int NARROW_ROWS = 14, LANES = 16;
using Words = __m512i;
inline Words zero_words() { return _mm512_setzero_si512(); }
inline Words load_words(const int32_t *p) { return _mm512_loadu_si512(p); }
inline Words splat_words(int32_t x) { return _mm512_set1_epi32(x); }
#if defined(__AVX512VNNI__)
inline Words multiply_add(Words a, Words b, Words c) { return _mm512_dpwssd_epi32(c, a, b); }
#else
inline Words multiply_add(Words a, Words b, Words c) { return _mm512_add_epi32(c, _mm512_madd_epi16(a, b)); }
#endif
inline void widen_onto(int64_t *sums, Words x) {
    const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(x));
    const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x, 1));
    _mm512_storeu_si512(sums, _mm512_add_epi64(_mm512_loadu_si512(sums), low));
    _mm512_storeu_si512(sums + 8, _mm512_add_epi64(_mm512_loadu_si512(sums + 8), high));
}
#elif defined(__AVX2__)
constexpr int NARROW_ROWS = 6, LANES = 8;
using Words = __m256i;
inline Words zero_words() { return _mm256_setzero_si256(); }
inline Words load_words(const int32_t *p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)); }
inline Words splat_words(int32_t x) { return _mm256_set1_epi32(x); }
inline Words multiply_add(Words a, Words b, Words c) { return _mm256_add_epi32(c, _mm256_madd_epi16(a, b)); }
inline void widen_onto(int64_t *sums, Words x) {
    auto *s = reinterpret_cast<__m256i *>(sums);
    const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(x));
    const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(x, 1));
    _mm256_storeu_si256(s, _mm256_add_epi64(_mm256_loadu_si256(s), low));
    _mm256_storeu_si256(s + 1, _mm256_add_epi64(_mm256_loadu_si256(s + 1), high));
}
#else
constexpr int NARROW_ROWS = 6, LANES = 8;
struct Words {
    int32_t v[LANES];
};
inline Words zero_words() { return {}; }
inline Words load_words(const int32_t *p) {
    Words r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
}
inline Words splat_words(int32_t x) {
    Words r;
    for (int32_t &v : r.v)
        v = x;
    return r;
}
inline Words multiply_add(Words a, Words b, Words c) {
    for (int i = 0; i < LANES; ++i)
        c.v[i] +=
            static_cast<int16_t>(a.v[i]) * static_cast<int16_t>(b.v[i]) + (a.v[i] >> 16) * (b.v[i] >> 16);
    return c;
}
inline void widen_onto(int64_t *sums, Words x) {
    for (int i = 0; i < LANES; ++i)
        sums[i] += x.v[i];
}
#endif
constexpr int NARROW_COLUMNS = 2 * LANES;

// sums += the tile's products of pairs [first, last).
template <int ROWS>
inline void narrow_tile(const int32_t *a, long a_row, long a_pair, const int32_t *panel, int first, int last,
                        int64_t *sums) {
    Words c[ROWS][2];
    for (int i = 0; i < ROWS; ++i)
        c[i][0] = c[i][1] = zero_words();
    for (int k = first; k < last; ++k) {
        const Words b0 = load_words(panel + k * NARROW_COLUMNS);
        const Words b1 = load_words(panel + k * NARROW_COLUMNS + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; ++i) {
            const Words x = splat_words(a[i * a_row + k * a_pair]);
            c[i][0] = multiply_add(x, b0, c[i][0]);
            c[i][1] = multiply_add(x, b1, c[i][1]);
        }
    }
    for (int i = 0; i < ROWS; ++i) {
        widen_onto(sums + i * NARROW_COLUMNS, c[i][0]);
        widen_onto(sums + i * NARROW_COLUMNS + LANES, c[i][1]);
    }
}

template <int... ROWS>
constexpr auto narrow_tiles(std::integer_sequence<int, ROWS...>) {
    using Function = void (*)(const int32_t *, long, long, const int32_t *, int, int, int64_t *);
    return std::array<Function, sizeof...(ROWS)>{&narrow_tile<ROWS + 1>...};
}

inline int64_t multiply_narrow(const MatrixProduct &p, const Rounding &r, int32_t *workspace, int block,
                               int32_t a_offset, int32_t b_offset) {
    constexpr auto TILES = narrow_tiles(std::make_integer_sequence<int, NARROW_ROWS>{});
    const int pairs = (p.depth + 1) / 2;
    int32_t *packed = workspace, *panel = packed + static_cast<long>(pairs) * p.rows;
    auto *row_sums = reinterpret_cast<int64_t *>(
        (reinterpret_cast<uintptr_t>(panel + static_cast<long>(pairs) * NARROW_COLUMNS) + 63) &
        ~uintptr_t(63));
    // A's pairs lie along the depth or across it, as A itself does.
    const bool along = p.a_column == 1;
    const long a_row = along ? pairs : 1, a_pair = along ? 1 : p.rows;
    if (along)
        for (int i = 0; i < p.rows; ++i)
            pairs_along(p.a + i * p.a_row, p.depth, a_offset, packed + static_cast<long>(i) * pairs);
    else
        for (int k = 0; k < pairs; ++k) {
            const int32_t *a = p.a + 2L * k * p.a_column;
            const int32_t *next = 2 * k + 1 < p.depth ? a + p.a_column : nullptr;
            pairs_across(a, next, p.a_row, p.rows, a_offset, packed + static_cast<long>(k) * p.rows);
        }
    for (int i = 0; i < p.rows; ++i) {
        row_sums[i] = 0;
        if (b_offset)
            for (int k = 0; k < p.depth; ++k)
                row_sums[i] += p.a[i * p.a_row + k * p.a_column];
    }
    int64_t saturated = 0;
    alignas(64) int64_t sums[NARROW_ROWS * NARROW_COLUMNS];
    for (int column = 0; column < p.columns; column += NARROW_COLUMNS) {
        const int columns = std::min(NARROW_COLUMNS, p.columns - column);
        alignas(64) int64_t column_sums[NARROW_COLUMNS] = {};
        pack_narrow(p, column, columns, NARROW_COLUMNS, b_offset, panel);
        if (a_offset) { // 2^14 pairs of 16-bit numbers always fit 32 bits
            const Words ones = splat_words(0x00010001);
            for (int k = 0; k < pairs; k += 1 << 14) {
                Words total[2] = {zero_words(), zero_words()};
                for (int i = k; i < std::min(pairs, k + (1 << 14)); ++i)
                    for (int h = 0; h < 2; ++h)
                        total[h] =
                            multiply_add(load_words(panel + i * NARROW_COLUMNS + h * LANES), ones, total[h]);
                widen_onto(column_sums, total[0]);
                widen_onto(column_sums + LANES, total[1]);
            }
        }
        for (int row = 0; row < p.rows;) {
            const int rows = tile_rows(p.rows - row, NARROW_ROWS);
            // sum (a' + oa)(b' + ob) = sum a'b' + oa sum b' + ob sum (a' + oa)
            int64_t from_b[NARROW_COLUMNS];
            for (int j = 0; j < NARROW_COLUMNS; ++j)
                from_b[j] = a_offset * column_sums[j];
            for (int i = 0; i < rows; ++i)
                for (int j = 0; j < NARROW_COLUMNS; ++j)
                    sums[i * NARROW_COLUMNS + j] = from_b[j] + b_offset * row_sums[row + i];
            for (int k = 0; k < pairs; k += block / 2)
                TILES[rows - 1](packed + row * a_row, a_row, a_pair, panel, k, std::min(pairs, k + block / 2),
                                sums);
            saturated += round_tile(r, sums, rows, columns, NARROW_COLUMNS, row, column);
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
inline double narrow_block(int64_t *result) {
    constexpr int PAIRS = 128, ROUNDS = 200;
    int32_t panel[PAIRS * NARROW_COLUMNS], a[NARROW_ROWS * PAIRS];
    std::fill_n(panel, PAIRS * NARROW_COLUMNS, static_cast<int32_t>(result[0]));
    std::fill_n(a, NARROW_ROWS * PAIRS, static_cast<int32_t>(result[0]));
    alignas(64) int64_t sums[NARROW_ROWS * NARROW_COLUMNS] = {};
    auto *volatile tile = &narrow_tile<NARROW_ROWS>;
    for (int round = 0; round < ROUNDS; ++round) {
        tile(a, PAIRS, 1, panel, 0, PAIRS, sums);
        a[0] = static_cast<int32_t>(sums[round % PANEL] & 1);
    }
    result[0] += a[0];
    return 2.0 * NARROW_ROWS * NARROW_COLUMNS * PAIRS * ROUNDS;
}
