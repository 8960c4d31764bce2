// Matrix products of operands rounded to bfloat16, on instructions that multiply pairs of them along the
// depth and add both products to a float32. Included once per instruction set after gemm.hpp; LANES is 16.
//
// Both operands are packed: pairs of the depth lie side by side in 32 bits, the first in the lower half. A's
// pairs keep the order of memory in which A lies, so that neither order needs a transposition; B's lie in
// panels of two vectors, as gemm.hpp packs them.

constexpr int PAIRS_DEPTH = 512; // of a block; even
constexpr int PAIRS_PANEL = 2 * LANES;
constexpr int PAIRS_LEAST_ROWS = 8 * TILE_ROWS;
static_assert(PAIRS_WORKSPACE * sizeof(float) >=
              (PAIRS_DEPTH / 2) *
                  (PAIRS_PANEL + std::max(PAIRS_LEAST_ROWS, 2 * ROW_BLOCK_ELEMENTS / PAIRS_DEPTH)) *
                  sizeof(std::uint32_t));

struct Pairs {
    using Element = std::uint32_t;
    static Vector read(const Element *p) { return load(reinterpret_cast<const float *>(p)); }
    static Vector read_part(const Element *p, int) { return read(p); } // panels are full
    static Vector broadcast(const Element *p) {
        return {_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*p)))};
    }
    static Vector multiply_add(Vector a, Vector b, Vector sum) {
        return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
    }
};

// Each lane a pair: the lane of `first` below that of `second`.
inline __m512i paired(Vector first, Vector second) {
    const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(to_bfloat16(first).v), 16);
    return _mm512_or_si512(low, _mm512_castps_si512(to_bfloat16(second).v));
}
// 16 pairs from 32 numbers in a row.
inline __m512i paired(const float *p, int count) {
    const Vector a = count >= LANES ? load(p) : load_part(p, count);
    const Vector b = count >= 2 * LANES ? load(p + LANES)
                     : count > LANES    ? load_part(p + LANES, count - LANES)
                                        : splat(0.0f);
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b.v, a.v));
}

// Lines of pairs: target[k * width + i] for k < pairs, i < count; from source[i * line + 2 k (+ 1)], whose
// depth is contiguous. Lanes from `count` to a multiple of LANES are zero.
inline void pack_along_depth(const float *source, long line, int count, int depth, long width,
                             std::uint32_t *target) {
    for (int i = 0; i < count; i += LANES) {
        const int lines = std::min(LANES, count - i);
        for (int k = 0; k < depth; k += 2 * LANES) {
            Vector block[LANES];
            for (int l = 0; l < LANES; ++l)
                block[l] = l < lines
                               ? Vector{_mm512_castsi512_ps(paired(source + (i + l) * line + k, depth - k))}
                               : splat(0.0f);
            transpose(block);
            const int pairs = std::min(LANES, (depth - k + 1) / 2);
            for (int l = 0; l < pairs; ++l)
                store(reinterpret_cast<float *>(target + (k / 2 + l) * width + i), block[l]);
        }
    }
}

// The same from source[k * row + i], whose lines of one depth are contiguous.
inline void pack_across_depth(const float *source, long row, int count, int depth, long width,
                              std::uint32_t *target) {
    for (int k = 0; k < depth; k += 2)
        for (int i = 0; i < count; i += LANES) {
            const int lanes = std::min(LANES, count - i);
            const Vector first = load_part(source + k * row + i, lanes);
            const Vector second = k + 1 < depth ? load_part(source + (k + 1) * row + i, lanes) : splat(0.0f);
            store(reinterpret_cast<float *>(target + k / 2 * width + i),
                  {_mm512_castsi512_ps(paired(first, second))});
        }
}

// The pair of source[0] and source[row]; its second half is zero where it is `alone`.
inline std::uint32_t pair_of(const float *source, long row, bool alone) {
    const auto half = [](float x) {
        return std::bit_cast<std::uint32_t>(_mm512_cvtss_f32(to_bfloat16(splat(x)).v));
    };
    return half(source[0]) >> 16 | (alone ? 0 : half(source[row]));
}

// And from any strides.
inline void pack_anyhow(const float *source, long line, long row, int count, int depth, long width,
                        std::uint32_t *target) {
    for (int k = 0; k < depth; k += 2)
        for (int i = 0; i < (count + LANES - 1) / LANES * LANES; ++i)
            target[k / 2 * width + i] =
                i < count ? pair_of(source + i * line + k * row, row, k + 1 == depth) : 0;
}

inline void pack_pairs(const float *source, long line, long row, int count, int depth, long width,
                       std::uint32_t *target) {
    if (line == 1)
        pack_across_depth(source, row, count, depth, width, target);
    else if (row == 1)
        pack_along_depth(source, line, count, depth, width, target);
    else
        pack_anyhow(source, line, row, count, depth, width, target);
}

// A's rows of a block as lines of pairs [row][pair]; where A's depth is contiguous.
inline void pack_rows(const float *source, long row, int rows, int depth, long width, std::uint32_t *target) {
    for (int i = 0; i < rows; ++i)
        for (int k = 0; k < depth; k += 2 * LANES) {
            const __m512i pairs = paired(source + i * row + k, depth - k);
            const int count = std::min(LANES, (depth - k + 1) / 2);
            _mm512_mask_storeu_epi32(target + i * width + k / 2, static_cast<__mmask16>((1u << count) - 1),
                                     pairs);
        }
}

inline void pack_anyhow_row(const float *source, long row, int depth, std::uint32_t *target) {
    for (int k = 0; k < depth; k += 2)
        target[k / 2] = pair_of(source + k * row, row, k + 1 == depth);
}

// As `multiply_add_block`, of pairs.
inline double multiply_pairs_block(float *result) {
    constexpr int CHAINS = 24, ROUNDS = 20000;
    Vector total[CHAINS];
    for (int i = 0; i < CHAINS; ++i)
        total[i] = splat(static_cast<float>(i));
    const Vector a = {_mm512_castsi512_ps(paired(splat(result[0]), splat(result[1])))};
    for (int round = 0; round < ROUNDS; ++round)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; ++i)
            total[i] = Pairs::multiply_add(a, a, total[i]);
    for (int i = 0; i < CHAINS; ++i)
        result[2] += sum(total[i]);
    return 2.0 * 2 * LANES * CHAINS * ROUNDS;
}

// Rows first .. first + count - 1 of C.
inline void multiply_pairs(const MatrixProduct &p, int first, int count, int depth_block, float *workspace) {
    auto *const panel = reinterpret_cast<std::uint32_t *>(workspace);
    std::uint32_t *const a = panel + PAIRS_DEPTH / 2 * PAIRS_PANEL;
    for (int k = 0; k < p.depth; k += depth_block) {
        const int depth = std::min(depth_block, p.depth - k), pairs = (depth + 1) / 2;
        const bool last = k + depth == p.depth, by_rows = p.a_column == 1;
        const float *const source = p.a + first * p.a_row + k * p.a_column;
        const long lines = (count + LANES - 1) / LANES * LANES;
        if (by_rows)
            pack_rows(source, p.a_row, count, depth, pairs, a);
        else
            pack_pairs(source, p.a_row, p.a_column, count, depth, lines, a);
        for (int j = 0; j < p.columns; j += PAIRS_PANEL) {
            const int columns = std::min(PAIRS_PANEL, p.columns - j);
            const int vectors = (columns + LANES - 1) / LANES;
            pack_pairs(p.b + k * p.b_row + j * p.b_column, p.b_column, p.b_row, columns, depth,
                       vectors * LANES, panel);
            Tile<std::uint32_t> t;
            t.a_row = by_rows ? pairs : 1, t.a_column = by_rows ? 1 : lines, t.c_row = p.c_row;
            t.b = panel, t.b_row = vectors * LANES;
            t.depth = pairs;
            t.last_lanes = columns - (vectors - 1) * LANES;
            t.whole_rows = pairs;
            t.accumulate = k > 0;
            t.rectify = last && p.rectify;
            t.column_bias = last && p.column_bias ? p.column_bias + j : nullptr;
            const auto *tiles = vectors == 1 ? NARROW_1<Pairs>.data() : NARROW_2<Pairs>.data();
            for (int i = 0; i < count;) {
                const int left = count - i;
                const int tiles_left = (left + TILE_ROWS - 1) / TILE_ROWS;
                const int rows = (left + tiles_left - 1) / tiles_left;
                t.a = a + i * t.a_row;
                t.c = p.c + (first + i) * p.c_row + j;
                t.row_bias = last && p.row_bias ? p.row_bias + first + i : nullptr;
                t.mask = last && p.mask ? p.mask + (first + i) * p.c_row + j : nullptr;
                tiles[rows - 1](t);
                i += rows;
            }
        }
    }
}

inline void multiply_pairs(const MatrixProduct &p, float *workspace) {
    // So few sums that packing takes longer than the sums.
    if (as_dots(p) || p.rows <= 3 || p.columns <= 3)
        return multiply<Rounded>(p, workspace);
    const int depth_blocks = (p.depth + PAIRS_DEPTH - 1) / PAIRS_DEPTH;
    const int depth_block = (p.depth / std::max(1, depth_blocks) + 1) / 2 * 2;
    const int most_rows = std::max(PAIRS_LEAST_ROWS, 2 * ROW_BLOCK_ELEMENTS / PAIRS_DEPTH);
    const int row_blocks = (p.rows + most_rows - 1) / most_rows;
    for (int block = 0, first = 0; block < row_blocks; ++block) {
        const int left = p.rows - first, blocks_left = row_blocks - block;
        const int count = (left + blocks_left - 1) / blocks_left;
        multiply_pairs(p, first, count, depth_block, workspace);
        first += count;
    }
}
