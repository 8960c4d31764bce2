// Matrix products: C = A B, or C += A B, with what follows done while a tile is in registers. Included
// once per instruction set; see kernels_body.hpp.
//
// C's rows are contiguous (the caller swaps the operands where its columns are). A's elements are broadcast
// one by one, so A may have any strides. B is read in vectors along its rows: as it lies where its rows are
// contiguous, else from panels of `vectors * LANES` columns packed by transposition.

constexpr int DEPTH_BLOCK = 320; // rows of a packed panel of B: 40 KiB of 32 columns
constexpr int WIDE = 8;          // vectors of a tile that has at most 3 rows
// Elements of A that every panel of B meets before the next rows come: 256 KiB, so that they stay in a
// second-level cache however long the batch is.
constexpr int ROW_BLOCK_ELEMENTS = 65536;

struct Tile {
    const float *a;
    long a_row, a_column;
    const float *b;
    long b_row;
    float *c;
    long c_row;
    int depth;
    int last_lanes; // of the last vector: 1 .. LANES
    bool accumulate;
    // What follows; each pointer may be null.
    const float *column_bias; // one for each column
    const float *row_bias;    // one for each row
    const float *mask;        // C's layout: keep where positive
    bool rectify;
};

template <int ROWS, int VECTORS>
inline void multiply_tile(const Tile &t) {
    Vector c[ROWS][VECTORS];
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < VECTORS; ++j)
            c[i][j] = splat(0.0f);
    const float *a = t.a;
    const float *b = t.b;
    const long a_row = t.a_row, a_column = t.a_column, b_row = t.b_row;
    const bool full = t.last_lanes == LANES;
    if (full) {
        for (int k = 0; k < t.depth; ++k) {
            Vector row[VECTORS];
            for (int j = 0; j < VECTORS; ++j)
                row[j] = load(b + j * LANES);
#pragma GCC unroll 16
            for (int i = 0; i < ROWS; ++i) {
                const Vector x = splat(a[i * a_row]);
                for (int j = 0; j < VECTORS; ++j)
                    c[i][j] = fma(x, row[j], c[i][j]);
            }
            a += a_column;
            b += b_row;
        }
    } else {
        for (int k = 0; k < t.depth; ++k) {
            Vector row[VECTORS];
            for (int j = 0; j < VECTORS - 1; ++j)
                row[j] = load(b + j * LANES);
            row[VECTORS - 1] = load_part(b + (VECTORS - 1) * LANES, t.last_lanes);
#pragma GCC unroll 16
            for (int i = 0; i < ROWS; ++i) {
                const Vector x = splat(a[i * a_row]);
                for (int j = 0; j < VECTORS; ++j)
                    c[i][j] = fma(x, row[j], c[i][j]);
            }
            a += a_column;
            b += b_row;
        }
    }
    // What follows is chosen once for the tile, so that the loops over its vectors have no branches.
    auto finish = [&](auto then) {
        for (int j = 0; j < VECTORS; ++j)
            for (int i = 0; i < ROWS; ++i) {
                const bool part = j == VECTORS - 1 && !full;
                const long at = i * t.c_row + j * LANES;
                auto read = [&](const float *p) { return part ? load_part(p, t.last_lanes) : load(p); };
                const Vector x = then(c[i][j], i, j, at, read);
                if (part)
                    store_part(t.c + at, x, t.last_lanes);
                else
                    store(t.c + at, x);
            }
    };
    if (t.accumulate || (t.mask && (t.column_bias || t.row_bias || t.rectify)))
        finish([&](Vector x, int i, int j, long at, auto read) {
            if (t.accumulate)
                x = add(x, read(t.c + at));
            if (t.column_bias)
                x = add(x, read(t.column_bias + j * LANES));
            if (t.row_bias)
                x = add(x, splat(t.row_bias[i]));
            if (t.rectify)
                x = positive_part(x);
            return t.mask ? keep_if_positive(read(t.mask + at), x) : x;
        });
    else if (t.mask)
        finish(
            [&](Vector x, int, int, long at, auto read) { return keep_if_positive(read(t.mask + at), x); });
    else if (t.column_bias && t.rectify)
        finish([&](Vector x, int, int j, long, auto read) {
            return positive_part(add(x, read(t.column_bias + j * LANES)));
        });
    else if (t.column_bias)
        finish(
            [&](Vector x, int, int j, long, auto read) { return add(x, read(t.column_bias + j * LANES)); });
    else if (t.row_bias && t.rectify)
        finish([&](Vector x, int i, int, long, auto) { return positive_part(add(x, splat(t.row_bias[i]))); });
    else if (t.row_bias)
        finish([&](Vector x, int i, int, long, auto) { return add(x, splat(t.row_bias[i])); });
    else if (t.rectify)
        finish([&](Vector x, int, int, long, auto) { return positive_part(x); });
    else
        finish([&](Vector x, int, int, long, auto) { return x; });
}

using TileFunction = void (*)(const Tile &);
template <int VECTORS, int... ROWS>
constexpr auto tile_functions(std::integer_sequence<int, ROWS...>) {
    return std::array<TileFunction, sizeof...(ROWS)>{&multiply_tile<ROWS + 1, VECTORS>...};
}
// [rows - 1]
constexpr auto NARROW_1 = tile_functions<1>(std::make_integer_sequence<int, TILE_ROWS>{});
constexpr auto NARROW_2 = tile_functions<2>(std::make_integer_sequence<int, TILE_ROWS>{});
template <int... VECTORS>
constexpr auto wide_functions(std::integer_sequence<int, VECTORS...>) {
    return std::array<std::array<TileFunction, 3>, sizeof...(VECTORS)>{
        tile_functions<VECTORS + 1>(std::make_integer_sequence<int, 3>{})...};
}
constexpr int WIDE_VECTORS = LANES == 16 ? WIDE : 4;
constexpr auto WIDE_TILES =
    wide_functions(std::make_integer_sequence<int, WIDE_VECTORS>{}); // [vectors-1][rows-1]

// source[j * row + k] for j < columns, k < depth, to panel[k * width + j]; columns beyond are zero.
inline void pack_transposed(const float *source, long row, int columns, int depth, int width, float *panel) {
    for (int j = 0; j < width; j += LANES) {
        const int lanes = std::min(LANES, columns - j);
        int k = 0;
        if (lanes == LANES)
            for (; k + LANES <= depth; k += LANES) {
                Vector block[LANES];
                for (int i = 0; i < LANES; ++i)
                    block[i] = load(source + (j + i) * row + k);
                transpose(block);
                for (int i = 0; i < LANES; ++i)
                    store(panel + (k + i) * width + j, block[i]);
            }
        for (; k < depth; ++k) {
            float *target = panel + k * width + j;
            for (int i = 0; i < LANES; ++i)
                target[i] = i < lanes ? source[(j + i) * row + k] : 0.0f;
        }
    }
}

// ROWS x COLUMNS elements of C as dot products along a contiguous depth.
template <int ROWS, int COLUMNS>
inline void multiply_dots(const MatrixProduct &p, int row, int column) {
    Vector total[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLUMNS; ++j)
            total[i][j] = splat(0.0f);
    const float *a = p.a + row * p.a_row, *b = p.b + column * p.b_column;
    auto advance = [&](auto read) {
        Vector y[COLUMNS];
        for (int j = 0; j < COLUMNS; ++j)
            y[j] = read(b + j * p.b_column);
        for (int i = 0; i < ROWS; ++i) {
            const Vector x = read(a + i * p.a_row);
            for (int j = 0; j < COLUMNS; ++j)
                total[i][j] = fma(x, y[j], total[i][j]);
        }
        a += LANES, b += LANES;
    };
    int k = 0;
    for (; k + LANES <= p.depth; k += LANES)
        advance([](const float *q) { return load(q); });
    if (const int lanes = p.depth - k; lanes > 0)
        advance([lanes](const float *q) { return load_part(q, lanes); });
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLUMNS; ++j) {
            float x = sum(total[i][j]);
            const long at = (row + i) * p.c_row + column + j;
            if (p.column_bias)
                x += p.column_bias[column + j];
            if (p.row_bias)
                x += p.row_bias[row + i];
            if (p.rectify)
                x = x < 0 ? 0 : x;
            if (p.mask)
                x = p.mask[at] <= 0 ? 0 : x;
            p.c[at] = x;
        }
}

// Few elements along long rows of A and columns of B.
inline void multiply_dots(const MatrixProduct &p) {
    using Function = void (*)(const MatrixProduct &, int, int);
    constexpr Function functions[4][4] = {
        {&multiply_dots<1, 1>, &multiply_dots<1, 2>, &multiply_dots<1, 3>, &multiply_dots<1, 4>},
        {&multiply_dots<2, 1>, &multiply_dots<2, 2>, &multiply_dots<2, 3>, &multiply_dots<2, 4>},
        {&multiply_dots<3, 1>, &multiply_dots<3, 2>, &multiply_dots<3, 3>, &multiply_dots<3, 4>},
        {&multiply_dots<4, 1>, &multiply_dots<4, 2>, &multiply_dots<4, 3>, &multiply_dots<4, 4>}};
    for (int i = 0; i < p.rows; i += 4)
        for (int j = 0; j < p.columns; j += 4)
            functions[std::min(4, p.rows - i) - 1][std::min(4, p.columns - j) - 1](p, i, j);
}

// Rows first .. first + count - 1 of C.
inline void multiply_rows(const MatrixProduct &p, int first, int count, int depth_block, float *workspace) {
    const bool wide = p.rows <= 3;
    const int width = (wide ? WIDE_VECTORS : 2) * LANES;
    const bool transposed = p.b_column != 1;
    for (int k = 0; k < p.depth; k += depth_block) {
        const int depth = std::min(depth_block, p.depth - k);
        const bool last = k + depth == p.depth;
        for (int j = 0; j < p.columns; j += width) {
            const int columns = std::min(width, p.columns - j);
            const int vectors = (columns + LANES - 1) / LANES;
            Tile t;
            t.a_row = p.a_row, t.a_column = p.a_column, t.c_row = p.c_row;
            t.depth = depth;
            t.last_lanes = columns - (vectors - 1) * LANES;
            t.accumulate = k > 0;
            t.rectify = last && p.rectify;
            t.column_bias = last && p.column_bias ? p.column_bias + j : nullptr;
            const float *b = p.b + k * p.b_row + j * p.b_column;
            if (transposed) {
                const int packed_width = vectors * LANES;
                pack_transposed(b, p.b_column, columns, depth, packed_width, workspace);
                t.b = workspace, t.b_row = packed_width;
            } else {
                t.b = b, t.b_row = p.b_row;
            }
            const auto *tiles = wide           ? WIDE_TILES[vectors - 1].data()
                                : vectors == 1 ? NARROW_1.data()
                                               : NARROW_2.data();
            for (int i = first; i < first + count;) {
                // Rows are dealt out evenly, so that no tile is left with one or two.
                const int left = first + count - i;
                const int tiles_left = (left + TILE_ROWS - 1) / TILE_ROWS;
                const int rows = (left + tiles_left - 1) / tiles_left;
                t.a = p.a + i * p.a_row + k * p.a_column;
                t.c = p.c + i * p.c_row + j;
                t.row_bias = last && p.row_bias ? p.row_bias + i : nullptr;
                t.mask = last && p.mask ? p.mask + i * p.c_row + j : nullptr;
                tiles[rows - 1](t);
                i += rows;
            }
        }
    }
}

inline void multiply(const MatrixProduct &p, float *workspace) {
    const bool along_depth = p.a_column == 1 && p.b_row == 1 && p.depth >= 2 * LANES;
    if (along_depth && (p.columns <= 4 || (p.rows <= 16 && p.columns <= 16)))
        return multiply_dots(p);
    const int depth_blocks = (p.depth + DEPTH_BLOCK - 1) / DEPTH_BLOCK;
    const int depth_block = (p.depth + depth_blocks - 1) / std::max(1, depth_blocks);
    const int most_rows = std::max(16 * TILE_ROWS, ROW_BLOCK_ELEMENTS / std::max(1, depth_block));
    const int row_blocks = (p.rows + most_rows - 1) / most_rows;
    for (int block = 0, first = 0; block < row_blocks; ++block) {
        const int left = p.rows - first, blocks_left = row_blocks - block;
        const int count = (left + blocks_left - 1) / blocks_left;
        multiply_rows(p, first, count, depth_block, workspace);
        first += count;
    }
}

// Floating-point operations of one block of multiply-adds that depend on nothing but themselves: what the
// core can do at most. The result keeps the compiler from leaving them out.
inline double multiply_add_block(float *result) {
    constexpr int CHAINS = LANES == 16 ? 24 : 10, ROUNDS = 20000;
    Vector total[CHAINS];
    for (int i = 0; i < CHAINS; ++i)
        total[i] = splat(static_cast<float>(i));
    const Vector factor = splat(result[0]), addend = splat(result[1]);
    for (int round = 0; round < ROUNDS; ++round)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; ++i)
            total[i] = fma(total[i], factor, addend);
    for (int i = 0; i < CHAINS; ++i)
        result[2] += sum(total[i]);
    return 2.0 * LANES * CHAINS * ROUNDS;
}
