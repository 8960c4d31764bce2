// Matrix products of operands rounded to bfloat16, on a processor's own systolic array: tiles of 16 x 16 sums
// in float32, to which one instruction adds 16 x 32 by 32 x 16 products (AMX). Included after gemm_pairs.hpp,
// whose packing it uses.
//
// A is packed as rows of pairs, B as panels of 32 columns; both are padded with zeros to whole tiles. `Array`
// stands for the processor's tiles, so that the tests can run this on any processor.

constexpr int TILE_SIDE = 16; // rows of a tile; and its columns of 32 bits
constexpr int TILES_PANEL = 2 * TILE_SIDE;
constexpr int TILES_DEPTH = PAIRS_DEPTH;
constexpr int TILES_ROWS = 2 * ROW_BLOCK_ELEMENTS / TILES_DEPTH; // of a block of A
static_assert(TILES_DEPTH % TILES_PANEL == 0 && TILES_ROWS % TILES_PANEL == 0);
static_assert(TILES_WORKSPACE * sizeof(float) >=
              (TILES_DEPTH / 2 * (TILES_PANEL + TILES_ROWS) + TILES_PANEL * TILES_PANEL) *
                  sizeof(std::uint32_t));

constexpr int up_to(int n, int step) { return (n + step - 1) / step * step; }

// Lines of pairs with the depth contiguous, as `pack_rows` makes them, from a source whose lines are
// contiguous across the depth: source[k * row + i] to target[i * width + k / 2].
inline void pack_rows_across(const float *source, long row, int rows, int depth, long width,
                             std::uint32_t *target) {
    for (int k = 0; k < depth; k += 2 * LANES)
        for (int i = 0; i < rows; i += LANES) {
            const int lanes = std::min(LANES, rows - i);
            Vector block[LANES];
            for (int l = 0; l < LANES; ++l) {
                const int at = k + 2 * l;
                const Vector first = at < depth ? load_part(source + at * row + i, lanes) : splat(0.0f);
                const Vector second =
                    at + 1 < depth ? load_part(source + (at + 1) * row + i, lanes) : splat(0.0f);
                block[l] = {_mm512_castsi512_ps(paired(first, second))};
            }
            transpose(block);
            for (int l = 0; l < lanes; ++l)
                store(reinterpret_cast<float *>(target + (i + l) * width + k / 2), block[l]);
        }
}

// 32 x 32 sums, or the 16 of them that `low` and `narrow` leave: rows of A and columns of B in one tile
// alone.
template <typename Array>
inline void multiply_block(const std::uint32_t *a, long a_row, const std::uint32_t *b, int pairs, bool low,
                           bool narrow, float *sums) {
    constexpr long PANEL_BYTES = TILES_PANEL * sizeof(std::uint32_t);
    const long a_bytes = a_row * static_cast<long>(sizeof(std::uint32_t));
    const std::uint32_t *const second = a + TILE_SIDE * a_row;
    Array::template zero<0>(), Array::template zero<1>(), Array::template zero<2>(),
        Array::template zero<3>();
    for (int k = 0; k < pairs; k += TILE_SIDE) {
        Array::template load<4>(a + k, a_bytes);
        Array::template load<6>(b + k * TILES_PANEL, PANEL_BYTES);
        Array::template multiply_add<0, 4, 6>();
        if (!low) {
            Array::template load<5>(second + k, a_bytes);
            Array::template multiply_add<2, 5, 6>();
        }
        if (!narrow) {
            Array::template load<7>(b + k * TILES_PANEL + TILE_SIDE, PANEL_BYTES);
            Array::template multiply_add<1, 4, 7>();
            if (!low)
                Array::template multiply_add<3, 5, 7>();
        }
    }
    Array::template store<0>(sums, PANEL_BYTES);
    if (!narrow)
        Array::template store<1>(sums + TILE_SIDE, PANEL_BYTES);
    if (!low)
        Array::template store<2>(sums + TILE_SIDE * TILES_PANEL, PANEL_BYTES);
    if (!low && !narrow)
        Array::template store<3>(sums + TILE_SIDE * TILES_PANEL + TILE_SIDE, PANEL_BYTES);
}

// What follows `rows` rows of sums.
template <int VECTORS>
inline void finish_rows(Tile<std::uint32_t> t, const float *row_bias, const float *mask, int rows,
                        const float *sums) {
    constexpr int AT_ONCE = 4;
    for (int i = 0; i < rows;) {
        t.row_bias = row_bias ? row_bias + i : nullptr;
        t.mask = mask ? mask + i * t.c_row : nullptr;
        const float *const from = sums + i * TILES_PANEL;
        const auto sum = [from](int row, int vector) {
            return load(from + row * TILES_PANEL + vector * LANES);
        };
        const int done = rows - i >= AT_ONCE ? AT_ONCE : 1;
        if (done == AT_ONCE)
            finish_tile<AT_ONCE, VECTORS>(t, sum);
        else
            finish_tile<1, VECTORS>(t, sum);
        t.c += done * t.c_row;
        i += done;
    }
}

// As `multiply_add_block`, of tiles.
template <typename Array>
inline double multiply_tiles_block(float *result) {
    constexpr int ROUNDS = 2000;
    [[maybe_unused]] const typename Array::Configured configured;
    alignas(64) std::uint32_t pairs[TILE_SIDE * TILE_SIDE];
    float sums[TILE_SIDE * TILE_SIDE];
    for (std::uint32_t &pair : pairs)
        pair = pair_of(result, 1, false);
    constexpr long ROW_BYTES = TILE_SIDE * sizeof(float);
    Array::template zero<0>(), Array::template zero<1>(), Array::template zero<2>(),
        Array::template zero<3>();
    Array::template load<4>(pairs, ROW_BYTES), Array::template load<5>(pairs, ROW_BYTES);
    for (int round = 0; round < ROUNDS; ++round) {
        Array::template multiply_add<0, 4, 5>(), Array::template multiply_add<1, 4, 5>();
        Array::template multiply_add<2, 4, 5>(), Array::template multiply_add<3, 4, 5>();
    }
    Array::template store<0>(sums, ROW_BYTES);
    result[2] += sums[0];
    return 2.0 * 4 * TILE_SIDE * TILE_SIDE * 2 * TILE_SIDE * ROUNDS;
}

// Rows first .. first + count - 1 of C.
template <typename Array>
inline void multiply_tiles(const MatrixProduct &p, int first, int count, int depth_block, float *workspace) {
    float *const sums = workspace;
    auto *const panel = reinterpret_cast<std::uint32_t *>(sums + TILES_PANEL * TILES_PANEL);
    std::uint32_t *const a = panel + TILES_DEPTH / 2 * TILES_PANEL;
    for (int k = 0; k < p.depth; k += depth_block) {
        const int depth = std::min(depth_block, p.depth - k), pairs = up_to(depth, 2 * TILE_SIDE) / 2;
        const bool last = k + depth == p.depth;
        const float *const source = p.a + first * p.a_row + k * p.a_column;
        std::fill(a, a + static_cast<long>(up_to(count, TILE_SIDE)) * pairs, 0u);
        if (p.a_column == 1)
            pack_rows(source, p.a_row, count, depth, pairs, a);
        else if (p.a_row == 1)
            pack_rows_across(source, p.a_column, count, depth, pairs, a);
        else
            for (int i = 0; i < count; ++i)
                pack_anyhow_row(source + i * p.a_row, p.a_column, depth, a + static_cast<long>(i) * pairs);
        for (int j = 0; j < p.columns; j += TILES_PANEL) {
            const int columns = std::min(TILES_PANEL, p.columns - j);
            const bool narrow = columns <= TILE_SIDE;
            std::fill(panel, panel + static_cast<long>(pairs) * TILES_PANEL, 0u);
            pack_pairs(p.b + k * p.b_row + j * p.b_column, p.b_column, p.b_row, columns, depth, TILES_PANEL,
                       panel);
            Tile<std::uint32_t> t{};
            t.c_row = p.c_row;
            t.last_lanes = narrow ? columns : columns - LANES;
            t.accumulate = k > 0;
            t.rectify = last && p.rectify;
            t.column_bias = last && p.column_bias ? p.column_bias + j : nullptr;
            for (int i = 0; i < count; i += TILES_PANEL) {
                const int rows = std::min(TILES_PANEL, count - i);
                multiply_block<Array>(a + static_cast<long>(i) * pairs, pairs, panel, pairs,
                                      rows <= TILE_SIDE, narrow, sums);
                t.c = p.c + (first + i) * p.c_row + j;
                const float *const row_bias = last && p.row_bias ? p.row_bias + first + i : nullptr;
                const float *const mask = last && p.mask ? p.mask + (first + i) * p.c_row + j : nullptr;
                if (narrow)
                    finish_rows<1>(t, row_bias, mask, rows, sums);
                else
                    finish_rows<2>(t, row_bias, mask, rows, sums);
            }
        }
    }
}

template <typename Array>
inline void multiply_tiles(const MatrixProduct &p, float *workspace) {
    if (as_dots(p) || p.rows <= 3 || p.columns <= 3)
        return multiply<Rounded>(p, workspace);
    [[maybe_unused]] const typename Array::Configured configured;
    const int depth_blocks = (p.depth + TILES_DEPTH - 1) / TILES_DEPTH;
    const int depth_block = up_to((p.depth + depth_blocks - 1) / std::max(1, depth_blocks), TILES_PANEL);
    for (int first = 0; first < p.rows; first += TILES_ROWS)
        multiply_tiles<Array>(p, first, std::min(TILES_ROWS, p.rows - first), depth_block, workspace);
}
