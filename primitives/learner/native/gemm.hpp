// Matrix products: C = A B, or C += A B, with what follows done while a tile is in registers. Included
// once per instruction set; see kernels_body.hpp.
//
// C's rows are contiguous (the caller swaps the operands where its columns are). A's elements are broadcast
// one by one, so A may have any strides. B is read in vectors along its rows: as it lies where its rows are
// contiguous, else from panels of `vectors * LANES` columns packed by transposition.
//
// Rows of 2^n elements share few sets of a first-level cache, so that panels that are read as they lie fall
// out of it. Whether copying them pays is measured (blocking.hpp); a copy changes no bit, as an element of C
// is the same chain of multiply-adds along the depth in every way.

constexpr int DEPTH_BLOCK = 320; // rows of a packed panel of B: 40 KiB of 32 columns
constexpr int WIDE = 8;          // vectors of a tile that has at most 3 rows
// Elements of A that every panel of B meets before the next rows come: 256 KiB, so that they stay in a
// second-level cache however long the batch is.
constexpr int ROW_BLOCK_ELEMENTS = 65536;

// How a product reads its operands and adds to its sums: in float32 as they are.
struct Exact {
    using Element = float;
    static Vector read(const float *p) { return load(p); }
    static Vector read_part(const float *p, int lanes) { return load_part(p, lanes); }
    static Vector broadcast(const float *p) { return splat(*p); }
    static Vector multiply_add(Vector a, Vector b, Vector sum) { return fma(a, b, sum); }
};

// As bfloat16, in float32's instructions: what the others have to agree with, for processors that have no
// more.
struct Rounded {
    using Element = float;
    static Vector read(const float *p) { return to_bfloat16(load(p)); }
    static Vector read_part(const float *p, int lanes) { return to_bfloat16(load_part(p, lanes)); }
    static Vector broadcast(const float *p) { return to_bfloat16(splat(*p)); }
    static Vector multiply_add(Vector a, Vector b, Vector sum) { return fma(a, b, sum); }
};

template <typename Element>
struct Tile {
    const Element *a;
    long a_row, a_column;
    const Element *b;
    long b_row;
    float *c;
    long c_row;
    int depth;
    int last_lanes; // of the last vector: 1 .. LANES
    int whole_rows; // of B, from the first, whose last vector may be read whole: what is beyond is not stored
    bool accumulate;
    // What follows; each pointer may be null.
    const float *column_bias; // one for each column
    const float *row_bias;    // one for each row
    const float *mask;        // C's layout: keep where positive
    bool rectify;
};

// What follows the sums of a tile, as `sum(row, vector)` has them.
template <int ROWS, int VECTORS, typename Element, typename Sum>
inline void finish_tile(const Tile<Element> &t, const Sum &sum) {
    const bool full = t.last_lanes == LANES;
    // What follows is chosen once for the tile, so that the loops over its vectors have no branches.
    auto finish = [&](auto then) {
        for (int j = 0; j < VECTORS; ++j)
            for (int i = 0; i < ROWS; ++i) {
                const bool part = j == VECTORS - 1 && !full;
                const long at = i * t.c_row + j * LANES;
                auto read = [&](const float *p) { return part ? load_part(p, t.last_lanes) : load(p); };
                const Vector x = then(sum(i, j), i, j, at, read);
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

template <typename Operands, int ROWS, int VECTORS>
inline void multiply_tile(const Tile<typename Operands::Element> &t) {
    using Element = typename Operands::Element;
    Vector c[ROWS][VECTORS];
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < VECTORS; ++j)
            c[i][j] = splat(0.0f);
    const Element *a = t.a;
    const Element *b = t.b;
    const long a_row = t.a_row, a_column = t.a_column, b_row = t.b_row;
    auto add_rows = [&](int rows, auto read_last) {
        for (int k = 0; k < rows; ++k) {
            Vector row[VECTORS];
            for (int j = 0; j < VECTORS - 1; ++j)
                row[j] = Operands::read(b + j * LANES);
            row[VECTORS - 1] = read_last(b + (VECTORS - 1) * LANES);
#pragma GCC unroll 16
            for (int i = 0; i < ROWS; ++i) {
                const Vector x = Operands::broadcast(a + i * a_row);
                for (int j = 0; j < VECTORS; ++j)
                    c[i][j] = Operands::multiply_add(x, row[j], c[i][j]);
            }
            a += a_column;
            b += b_row;
        }
    };
    add_rows(t.whole_rows, [](const Element *p) { return Operands::read(p); });
    if (t.whole_rows < t.depth)
        add_rows(t.depth - t.whole_rows,
                 [&](const Element *p) { return Operands::read_part(p, t.last_lanes); });
    finish_tile<ROWS, VECTORS>(t, [&](int i, int j) { return c[i][j]; });
}

template <typename Operands>
struct Tiles {
    using Function = void (*)(const Tile<typename Operands::Element> &);
    template <int VECTORS, int... ROWS>
    static constexpr auto of_width(std::integer_sequence<int, ROWS...>) {
        return std::array<Function, sizeof...(ROWS)>{&multiply_tile<Operands, ROWS + 1, VECTORS>...};
    }
    template <int... VECTORS>
    static constexpr auto low(std::integer_sequence<int, VECTORS...>) {
        return std::array<std::array<Function, 3>, sizeof...(VECTORS)>{
            of_width<VECTORS + 1>(std::make_integer_sequence<int, 3>{})...};
    }
};
constexpr int WIDE_VECTORS = LANES == 16 ? WIDE : 4;
// Of a tile of three vectors, whose accumulators, with 3 vectors of B and 1 of A, fill the registers too.
constexpr int BROAD_ROWS = LANES == 16 ? 9 : 4;
// Of one and of two vectors, and of at most 3 rows: [rows - 1], [vectors - 1][rows - 1].
template <typename Operands>
constexpr auto NARROW_1 = Tiles<Operands>::template of_width<1>(std::make_integer_sequence<int, TILE_ROWS>{});
template <typename Operands>
constexpr auto NARROW_2 = Tiles<Operands>::template of_width<2>(std::make_integer_sequence<int, TILE_ROWS>{});
template <typename Operands>
constexpr auto NARROW_3 =
    Tiles<Operands>::template of_width<3>(std::make_integer_sequence<int, BROAD_ROWS>{});
template <typename Operands>
constexpr auto WIDE_TILES = Tiles<Operands>::low(std::make_integer_sequence<int, WIDE_VECTORS>{});

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

// source[k * row + j] for k < depth, j < columns, to panel[k * width + j]; columns beyond are zero.
inline void pack_panel(const float *source, long row, int columns, int depth, int width, float *panel) {
    const int whole = columns / LANES * LANES;
    for (int k = 0; k < depth; ++k, source += row, panel += width) {
        for (int j = 0; j < whole; j += LANES)
            store(panel + j, load(source + j));
        if (whole < width)
            store(panel + whole, load_part(source + whole, columns - whole));
    }
}

// Rows of A whose depth is not contiguous, a tile after the other: each with its rows side by side. Writes up
// to a vector beyond the end.
inline void pack_tiles(const MatrixProduct &p, int first, int count, int start, int depth, int tile_rows,
                       float *packed) {
    for (int i = 0; i < count;) {
        const int left = count - i, tiles_left = (left + tile_rows - 1) / tile_rows;
        const int rows = (left + tiles_left - 1) / tiles_left;
        const float *source = p.a + (first + i) * p.a_row + start * p.a_column;
        // Whole vectors are read, and what is not the tile's is then written over; the last row may end A.
        int k = 0;
        if (p.a_row == 1 && p.a_column >= TILE_ROWS + LANES)
            for (; k < depth - 1; ++k, source += p.a_column, packed += rows)
                for (int r = 0; r < rows; r += LANES)
                    store(packed + r, load(source + r));
        for (; k < depth; ++k, source += p.a_column, packed += rows)
            for (int r = 0; r < rows; ++r)
                packed[r] = source[r * p.a_row];
        i += rows;
    }
}

// ROWS x COLUMNS elements of C as dot products along a contiguous depth.
template <typename Operands, int ROWS, int COLUMNS>
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
                total[i][j] = Operands::multiply_add(x, y[j], total[i][j]);
        }
        a += LANES, b += LANES;
    };
    int k = 0;
    for (; k + LANES <= p.depth; k += LANES)
        advance([](const float *q) { return Operands::read(q); });
    if (const int lanes = p.depth - k; lanes > 0)
        advance([lanes](const float *q) { return Operands::read_part(q, lanes); });
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
template <typename Operands>
inline void multiply_dots(const MatrixProduct &p) {
    using Function = void (*)(const MatrixProduct &, int, int);
    constexpr auto of_rows = []<int ROWS>(std::integral_constant<int, ROWS>) {
        return std::array<Function, 4>{&multiply_dots<Operands, ROWS, 1>, &multiply_dots<Operands, ROWS, 2>,
                                       &multiply_dots<Operands, ROWS, 3>, &multiply_dots<Operands, ROWS, 4>};
    };
    constexpr std::array<std::array<Function, 4>, 4> functions{
        of_rows(std::integral_constant<int, 1>{}), of_rows(std::integral_constant<int, 2>{}),
        of_rows(std::integral_constant<int, 3>{}), of_rows(std::integral_constant<int, 4>{})};
    for (int i = 0; i < p.rows; i += 4)
        for (int j = 0; j < p.columns; j += 4)
            functions[std::min(4, p.rows - i) - 1][std::min(4, p.columns - j) - 1](p, i, j);
}

// How many rows of B may be read `beyond` elements past their end: into the rows that follow.
inline int whole_rows(const MatrixProduct &p, int beyond) {
    if (beyond == 0)
        return p.depth;
    return p.b_row > 0 ? p.depth - static_cast<int>((beyond + p.b_row - 1) / p.b_row) : 0;
}

// Rows first .. first + count - 1 of C.
template <typename Operands>
inline void multiply_rows(const MatrixProduct &p, int first, int count, int depth_block, float *workspace) {
    const bool wide = p.rows <= 3, broad = !wide && p.blocking.broad;
    const int width = (wide ? WIDE_VECTORS : broad ? 3 : 2) * LANES;
    const int tile_rows = broad ? BROAD_ROWS : TILE_ROWS;
    const bool transposed = p.b_column != 1, pack_a = p.blocking.pack_a && p.a_column != 1 && !wide;
    float *const packed = workspace + DEPTH_BLOCK * WIDE * LANES;
    for (int k = 0; k < p.depth; k += depth_block) {
        const int depth = std::min(depth_block, p.depth - k);
        const bool last = k + depth == p.depth;
        if (pack_a)
            pack_tiles(p, first, count, k, depth, tile_rows, packed);
        for (int j = 0; j < p.columns; j += width) {
            const int columns = std::min(width, p.columns - j);
            const int vectors = (columns + LANES - 1) / LANES;
            Tile<float> t;
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
                t.whole_rows = depth;
            } else if (p.blocking.pack_b && !wide) {
                const int packed_width = vectors * LANES;
                pack_panel(b, p.b_row, columns, depth, packed_width, workspace);
                t.b = workspace, t.b_row = packed_width;
                t.whole_rows = depth;
            } else {
                t.b = b, t.b_row = p.b_row;
                t.whole_rows = std::clamp(whole_rows(p, LANES - t.last_lanes) - k, 0, depth);
            }
            const auto *tiles = wide           ? WIDE_TILES<Operands>[vectors - 1].data()
                                : vectors == 1 ? NARROW_1<Operands>.data()
                                : vectors == 2 ? NARROW_2<Operands>.data()
                                               : NARROW_3<Operands>.data();
            for (int i = first; i < first + count;) {
                // Rows are dealt out evenly, so that no tile is left with one or two.
                const int left = first + count - i;
                const int tiles_left = (left + tile_rows - 1) / tile_rows;
                const int rows = (left + tiles_left - 1) / tiles_left;
                t.a = p.a + i * p.a_row + k * p.a_column;
                if (pack_a)
                    t.a = packed + static_cast<long>(i - first) * depth, t.a_row = 1, t.a_column = rows;
                t.c = p.c + i * p.c_row + j;
                t.row_bias = last && p.row_bias ? p.row_bias + i : nullptr;
                t.mask = last && p.mask ? p.mask + i * p.c_row + j : nullptr;
                tiles[rows - 1](t);
                i += rows;
            }
        }
    }
}

// Whether a product is taken as dot products.
inline bool as_dots(const MatrixProduct &p) {
    const bool along_depth = p.a_column == 1 && p.b_row == 1 && p.depth >= 2 * LANES;
    return along_depth && (p.columns <= 4 || (p.rows <= 16 && p.columns <= 16));
}

template <typename Operands>
inline void multiply(const MatrixProduct &p, float *workspace) {
    if (as_dots(p))
        return multiply_dots<Operands>(p);
    const int depth_blocks = (p.depth + DEPTH_BLOCK - 1) / DEPTH_BLOCK;
    const int depth_block = (p.depth + depth_blocks - 1) / std::max(1, depth_blocks);
    const int most_rows = std::max(16 * TILE_ROWS, ROW_BLOCK_ELEMENTS / std::max(1, depth_block));
    const int row_blocks = (p.rows + most_rows - 1) / most_rows;
    for (int block = 0, first = 0; block < row_blocks; ++block) {
        const int left = p.rows - first, blocks_left = row_blocks - block;
        const int count = (left + blocks_left - 1) / blocks_left;
        multiply_rows<Operands>(p, first, count, depth_block, workspace);
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
