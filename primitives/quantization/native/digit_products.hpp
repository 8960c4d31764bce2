// Exact products of integer matrices out of 16-bit multiply-adds (vpdpwssd, vpmaddwd), a pair of digits at a
// time. Included once per instruction set.
//
// B's digits go into panels of COLUMNS columns, A's into pairs of neighbours along the depth. A tile of C is
// ROWS x VECTORS vectors of sums of 32 bits, which wrap: what counts is that the whole sum of a block fits,
// with what the operands' offsets add to it, not what comes on the way. After each block but the last the
// upper halves are moved to sums of their own. In the end the sums are added up in binary64, which holds 51
// bits exactly.

// Words are written as halves.
inline int32_t word_at(const int32_t *p) {
    int32_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

// f(i, v) for every i < ROWS and v < VECTORS, each a constant: what they index stays in registers.
template <int ROWS, int VECTORS, typename Function>
[[gnu::always_inline]] inline void each(Function f) {
    [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
        (f(std::integral_constant<int, I / VECTORS>(), std::integral_constant<int, I % VECTORS>()), ...);
    }(std::make_integer_sequence<int, ROWS * VECTORS>());
}

// What a tile adds up: rows of A by a panel of B.
struct Tile {
    const int32_t *a;
    long a_row, a_pair;
    const int32_t *panel;
    const int *ends; // of blocks, as in DigitProduct
    int pairs;
    // What the operands' offsets add to the sums of a block: by block and column, by block and row.
    const int32_t *column_starts, *row_starts;
    long row_step; // of the latter, from block to block

    bool moves() const { return ends[0] < pairs; }
};

// The sums of a tile: lower + 65536 upper, the latter only where it moves.
template <int ROWS, int VECTORS>
[[gnu::noinline]] void sum_tile(const Tile &t, int32_t *lower, int32_t *upper) {
    const int32_t *a = t.a, *panel = t.panel, *columns = t.column_starts, *rows = t.row_starts;
    const int *ends = t.ends;
    const long a_row = t.a_row, a_pair = t.a_pair;
    Words c[ROWS][VECTORS];
    each<ROWS, VECTORS>(
        [&](auto i, auto v) { c[i][v] = add_words(splat_words(rows[i]), load_words(columns + v * LANES)); });
    for (int k = 0;;) {
        for (const int end = *ends++; k < end; ++k) {
            Words b[VECTORS];
            for (int v = 0; v < VECTORS; ++v)
                b[v] = load_words(panel + k * COLUMNS + v * LANES);
#pragma GCC unroll 16
            for (int i = 0; i < ROWS; ++i) {
                const Words x = splat_words(word_at(a + i * a_row + k * a_pair));
                for (int v = 0; v < VECTORS; ++v)
                    c[i][v] = multiply_add(x, b[v], c[i][v]);
            }
        }
        if (k == t.pairs)
            break;
        columns += COLUMNS, rows += t.row_step;
        each<ROWS, VECTORS>([&](auto i, auto v) {
            int32_t *sums = upper + (i * VECTORS + v) * LANES;
            store_words(sums, add_words(load_words(sums), upper_halves(c[i][v])));
            const Words start = add_words(splat_words(rows[i]), load_words(columns + v * LANES));
            c[i][v] = add_words(lower_halves(c[i][v]), start);
        });
    }
    each<ROWS, VECTORS>([&](auto i, auto v) { store_words(lower + (i * VECTORS + v) * LANES, c[i][v]); });
}

using SumTile = void (*)(const Tile &, int32_t *, int32_t *);
template <int VECTORS, int... ROWS>
constexpr auto sum_tiles(std::integer_sequence<int, ROWS...>) {
    return std::array<SumTile, sizeof...(ROWS)>{&sum_tile<ROWS + 1, VECTORS>...};
}
constexpr auto TILE_SIZES = std::make_integer_sequence<int, TILE_ROWS>{};
// [vectors - 1][rows - 1]
constexpr std::array<SumTile, TILE_ROWS> SUM_TILES[2] = {sum_tiles<1>(TILE_SIZES), sum_tiles<2>(TILE_SIZES)};

// One of A's digits as words: [row][pair] or [pair][row].
struct PackedDigit {
    const int32_t *words;
    long row, pair;
};

inline PackedDigit packed_rows(const DigitProduct &p, int digit, int32_t *words) {
    const int16_t *plane = p.a.planes + digit * p.a.plane;
    if (p.a.along_depth)
        return {reinterpret_cast<const int32_t *>(plane), p.a.line / 2, 1};
    const long line = (p.rows + 31L) & ~31L;
    pairs_across(plane, p.a.line, p.depth, p.rows, line, words);
    return {words, 1, line};
}

// starts[block rows + row] = factor x the sum of the row over a block.
inline void sum_blocks(const PackedDigit &a, int rows, const std::vector<int> &ends, int32_t factor,
                       int32_t *starts) {
    const Words ones = splat_words(0x00010001);
    int first = 0;
    for (const int end : ends) {
        if (a.row == 1)
            for (int row = 0; row < rows; row += LANES) {
                Words total = zero_words();
                for (int k = first; k < end; ++k)
                    total = multiply_add(load_words(a.words + k * a.pair + row), ones, total);
                store_first(starts + row, total, rows - row);
            }
        else
            for (int row = 0; row < rows; ++row) {
                Words total = zero_words();
                for (int k = first; k < end; k += LANES)
                    total = multiply_add(load_first(a.words + row * a.row + k, end - k), ones, total);
                starts[row] = sum_lanes(total);
            }
        for (int row = 0; row < rows; ++row)
            starts[row] = wrapping_product(starts[row], factor);
        starts += rows, first = end;
    }
}

// starts[block COLUMNS + column] = factor x the sum of the panel's column over a block + addend x its depth.
inline void sum_panel_blocks(const int32_t *panel, const std::vector<int> &ends, int depth, int32_t factor,
                             int32_t addend, int32_t *starts) {
    const Words ones = splat_words(0x00010001);
    int first = 0;
    for (const int end : ends) {
        for (int v = 0; v < COLUMNS; v += LANES) {
            Words total = zero_words();
            for (int k = first; k < end; ++k)
                total = multiply_add(load_words(panel + k * COLUMNS + v), ones, total);
            store_words(starts + v, total);
        }
        const int32_t more = wrapping_product(addend, std::min(2 * end, depth) - 2 * first);
        for (int v = 0; v < COLUMNS; ++v)
            starts[v] = wrapping_sum(wrapping_product(starts[v], factor), more);
        starts += COLUMNS, first = end;
    }
}

// Into C, row by row: the tile's sums, rounded, and what follows.
inline int64_t store_tile(const Rounding &r, const Epilogue &then, const int32_t *lower, const int32_t *upper,
                          int rows, int vectors, int row, int column, int columns) {
    int64_t saturated = 0;
    const double twice = 2 * r.factor;
    const auto highest = static_cast<int32_t>(r.highest);
    const auto finish = [&](auto change) {
        for (int i = 0; i < rows; ++i)
            for (int v = 0; v < vectors; ++v) {
                const int from = (i * vectors + v) * LANES, j = column + v * LANES,
                          count = columns - v * LANES;
                const long at = (row + i) * r.c_row + j;
                const Words x = round_words(lower + from, upper ? upper + from : nullptr, twice);
                // Stores of a part are several times as slow.
                if (count >= LANES)
                    store_words(r.c + at, change(x, at, j, [](const int32_t *p) { return load_words(p); }));
                else
                    // Values beyond the last column are arbitrary.
                    store_first(r.c + at,
                                change(first_of(x, count), at, j,
                                       [&](const int32_t *p) { return load_first(p, count); }),
                                count);
            }
    };
    if (then.bias)
        finish([&](Words x, long, int j, auto load) {
            return rectify_words(x, load(then.bias + j), highest, saturated);
        });
    else if (then.mask)
        finish(
            [&](Words x, long at, int, auto load) { return keep_where_positive(load(then.mask + at), x); });
    else
        finish([](Words x, long, int, auto) { return x; });
    return saturated;
}

inline int64_t multiply_digits(const DigitProduct &p, const Rounding &r, const Epilogue &then,
                               int32_t *workspace) {
    const int pairs = (p.depth + 1) / 2;
    int32_t *panels = workspace, *words = panels + long(Digits::MOST) * pairs * COLUMNS;
    PackedDigit a[Digits::MOST];
    for (int i = 0; i < p.a.count; ++i)
        a[i] = packed_rows(p, i, words + i * pairs * ((p.rows + 31L) & ~31L));
    // sum (a + A)(b + B) = sum a b + A sum (b + B) + B sum a, A and B the offsets; only operands of one digit
    // have them.
    std::vector<int32_t> row_starts[Digits::MOST], column_starts[Digits::MOST];
    size_t blocks = 0;
    for (const auto &line : p.ends)
        for (const std::vector<int> &ends : line)
            blocks = std::max(blocks, ends.size());
    const std::vector<int32_t> none(blocks * COLUMNS);
    for (int i = 0; p.b.offset && i < p.a.count; ++i) {
        row_starts[i].resize(p.ends[i][0].size() * static_cast<size_t>(p.rows));
        sum_blocks(a[i], p.rows, p.ends[i][0], p.b.offset, row_starts[i].data());
    }
    for (int j = 0; p.a.offset && j < p.b.count; ++j)
        column_starts[j].resize(p.ends[0][j].size() * COLUMNS);
    const bool single = p.a.count == 1 && p.b.count == 1 && p.within && r.c_column == 1;
    int64_t saturated = 0;
    constexpr int MOST_SUMS = TILE_ROWS * COLUMNS;
    alignas(64) double sums[MOST_SUMS];
    alignas(64) int32_t lower[MOST_SUMS], upper[MOST_SUMS];
    for (int column = 0; column < p.columns; column += COLUMNS) {
        const int columns = std::min(COLUMNS, p.columns - column);
        const int vectors = columns > LANES ? 2 : 1;
        for (int j = 0; j < p.b.count; ++j) {
            int32_t *panel = panels + long(j) * pairs * COLUMNS;
            pack_panel(p.b, j, p.depth, column, columns, panel);
            if (p.a.offset)
                sum_panel_blocks(panel, p.ends[0][j], p.depth, p.a.offset,
                                 wrapping_product(p.a.offset, p.b.offset), column_starts[j].data());
        }
        for (int row = 0; row < p.rows;) {
            const int rows = tile_rows(p.rows - row, TILE_ROWS), size = rows * vectors * LANES;
            const auto sum = [&](int i, int j) {
                const Tile tile{a[i].words + row * a[i].row,
                                a[i].row,
                                a[i].pair,
                                panels + long(j) * pairs * COLUMNS,
                                p.ends[i][j].data(),
                                pairs,
                                p.a.offset ? column_starts[j].data() : none.data(),
                                p.b.offset ? row_starts[i].data() + row : none.data(),
                                p.b.offset ? p.rows : 0};
                if (tile.moves())
                    std::fill_n(upper, size, 0);
                SUM_TILES[vectors - 1][rows - 1](tile, lower, upper);
                return tile.moves();
            };
            if (single) {
                const bool moved = sum(0, 0);
                saturated +=
                    store_tile(r, then, lower, moved ? upper : nullptr, rows, vectors, row, column, columns);
                row += rows;
                continue;
            }
            std::fill_n(sums, rows * COLUMNS, 0);
            const auto add = [&](const int32_t *from, double scale) {
                for (int i = 0; i < rows; ++i)
                    for (int v = 0; v < vectors; ++v)
                        add_scaled(sums + i * COLUMNS + v * LANES,
                                   load_words(from + (i * vectors + v) * LANES), scale);
            };
            for (int i = 0; i < p.a.count; ++i)
                for (int j = 0; j < p.b.count; ++j) {
                    const double scale = std::ldexp(1.0, i * p.a.bits + j * p.b.bits);
                    const bool moved = sum(i, j);
                    add(lower, scale);
                    if (moved)
                        add(upper, 65536 * scale);
                }
            for (int i = 0; i < rows; ++i) {
                saturated += round_sums(r, sums + i * COLUMNS, columns, p.within, row + i, column);
                saturated += finish_line(r, then, row + i, column, columns);
            }
            row += rows;
        }
    }
    return saturated;
}

// In numbers of type `Sum`.
template <typename Sum>
inline void magnitude_sums_in(const Digits &d, long lines, long length, int64_t *sums) {
    const long spans = ((d.along_depth ? length : lines) + SPAN - 1) / SPAN;
    std::fill_n(sums, spans, 0);
    const int32_t offset = d.offset;
    if (d.along_depth) {
        for (long i = 0; i < lines; ++i)
            for (long g = 0; g < spans; ++g) {
                const int16_t *x = d.planes + i * d.line + g * SPAN;
                const long count = std::min<long>(SPAN, length - g * SPAN);
                Sum total = 0;
                for (long k = 0; k < count; ++k)
                    total += std::abs(x[k] + offset);
                sums[g] = std::max<int64_t>(sums[g], total);
            }
        return;
    }
    std::vector<Sum> totals(static_cast<size_t>(length));
    for (long g = 0; g < spans; ++g) {
        std::fill(totals.begin(), totals.end(), Sum(0));
        for (long i = g * SPAN; i < std::min(lines, (g + 1) * SPAN); ++i) {
            const int16_t *x = d.planes + i * d.line;
            Sum *total = totals.data();
#pragma GCC ivdep
            for (long k = 0; k < length; ++k)
                total[k] += std::abs(x[k] + offset);
        }
        sums[g] = *std::max_element(totals.begin(), totals.end());
    }
}

// See `Kernels`.
inline void magnitude_sums(const Digits &d, long lines, long length, int64_t *sums) {
    constexpr int32_t FAR = 1 << 24; // from here SPAN numbers may leave 32 bits
    if (std::abs(d.offset) < FAR)
        magnitude_sums_in<int32_t>(d, lines, length, sums);
    else
        magnitude_sums_in<int64_t>(d, lines, length, sums);
}

inline double narrow_block(int64_t *result) {
    constexpr int PAIRS = 128, ROUNDS = 200;
    int32_t panel[PAIRS * COLUMNS], a[TILE_ROWS * PAIRS], none[COLUMNS] = {};
    std::fill_n(panel, PAIRS * COLUMNS, static_cast<int32_t>(result[0]));
    std::fill_n(a, TILE_ROWS * PAIRS, static_cast<int32_t>(result[0]));
    alignas(64) int32_t sums[TILE_ROWS * COLUMNS] = {};
    auto *volatile sum = &sum_tile<TILE_ROWS, 2>; // a call that is not seen through
    const int end = PAIRS;
    const Tile tile{a, PAIRS, 1, panel, &end, PAIRS, none, none, 0};
    for (int round = 0; round < ROUNDS; ++round) {
        sum(tile, sums, sums);
        a[0] = sums[round % LANES] < 0;
    }
    result[0] += a[0];
    return 4.0 * TILE_ROWS * LANES * PAIRS * ROUNDS;
}
