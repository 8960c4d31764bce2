// Exact products of integer matrices out of 16-bit multiply-adds (vpdpwssd, vpmaddwd), a pair of digits at a
// time. Included once per instruction set.
//
// B's digits go into panels of COLUMNS columns, A's into pairs of neighbours along the depth. A tile of C is
// ROWS x VECTORS vectors of sums of 32 bits. Where they could overflow, their upper halves are moved to sums
// of their own after each block. In the end the sums are added up in binary64, which holds 51 bits exactly.

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

// One loop a function, or compilers spill the sums: c += the tile's products of `pairs` pairs.
template <int ROWS, int VECTORS>
[[gnu::noinline]] void add_pairs(const int32_t *a, long a_row, long a_pair, const int32_t *panel, int pairs,
                                 int32_t *sums) {
    Words c[ROWS][VECTORS];
    each<ROWS, VECTORS>([&](auto i, auto v) { c[i][v] = load_words(sums + (i * VECTORS + v) * LANES); });
    for (int k = 0; k < pairs; ++k) {
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
    each<ROWS, VECTORS>([&](auto i, auto v) { store_words(sums + (i * VECTORS + v) * LANES, c[i][v]); });
}

// sums += scale x the tile's products of all pairs.
template <int ROWS, int VECTORS>
void digit_tile(const int32_t *a, long a_row, long a_pair, const int32_t *panel, int pairs, int block,
                double scale, double *sums) {
    constexpr int SIZE = ROWS * VECTORS * LANES;
    alignas(64) int32_t lower[SIZE] = {}, upper[SIZE] = {};
    const bool moves = block < pairs;
    for (int first = 0; first < pairs; first += block) {
        add_pairs<ROWS, VECTORS>(a + first * a_pair, a_row, a_pair, panel + first * COLUMNS,
                                 std::min(block, pairs - first), lower);
        if (!moves)
            break;
        for (int i = 0; i < SIZE; i += LANES) {
            const Words c = load_words(lower + i);
            store_words(upper + i, add_words(load_words(upper + i), upper_halves(c)));
            store_words(lower + i, lower_halves(c));
        }
    }
    for (int i = 0; i < ROWS; ++i)
        for (int v = 0; v < VECTORS; ++v) {
            double *sum = sums + i * COLUMNS + v * LANES;
            add_scaled(sum, load_words(lower + (i * VECTORS + v) * LANES), scale);
            if (moves)
                add_scaled(sum, load_words(upper + (i * VECTORS + v) * LANES), scale * 65536);
        }
}

// A tile that one pair of digits does: its sums, with those of the offsets, go straight into C.
template <int ROWS, int VECTORS>
void single_tile(const int32_t *a, long a_row, long a_pair, const int32_t *panel, int pairs,
                 const Rounding &r, const double *base, const double *from_a, int columns, int32_t *c) {
    alignas(64) int32_t sums[ROWS * VECTORS * LANES] = {};
    add_pairs<ROWS, VECTORS>(a, a_row, a_pair, panel, pairs, sums);
    for (int i = 0; i < ROWS; ++i)
        for (int v = 0; v < VECTORS; ++v)
            round_words(load_words(sums + (i * VECTORS + v) * LANES), base + v * LANES,
                        from_a ? from_a[i] : 0, 2 * r.factor, columns - v * LANES,
                        c + i * r.c_row + v * LANES);
}

using DigitTile = void (*)(const int32_t *, long, long, const int32_t *, int, int, double, double *);
template <int VECTORS, int... ROWS>
constexpr auto digit_tiles(std::integer_sequence<int, ROWS...>) {
    return std::array<DigitTile, sizeof...(ROWS)>{&digit_tile<ROWS + 1, VECTORS>...};
}
using SingleTile = void (*)(const int32_t *, long, long, const int32_t *, int, const Rounding &,
                            const double *, const double *, int, int32_t *);
template <int VECTORS, int... ROWS>
constexpr auto single_tiles(std::integer_sequence<int, ROWS...>) {
    return std::array<SingleTile, sizeof...(ROWS)>{&single_tile<ROWS + 1, VECTORS>...};
}
constexpr auto TILE_SIZES = std::make_integer_sequence<int, TILE_ROWS>{};
// [vectors - 1][rows - 1]
constexpr std::array<DigitTile, TILE_ROWS> DIGIT_TILES[2] = {digit_tiles<1>(TILE_SIZES),
                                                             digit_tiles<2>(TILE_SIZES)};

constexpr std::array<SingleTile, TILE_ROWS> SINGLE_TILES[2] = {single_tiles<1>(TILE_SIZES),
                                                               single_tiles<2>(TILE_SIZES)};

// Sums over the depth of 16-bit numbers fit 32 bits: the depth has 2^15 at most.
inline void add_column_sums(const int32_t *panel, int pairs, double scale, double *sums) {
    Words total[COLUMNS / LANES];
    for (Words &one : total)
        one = zero_words();
    for (int k = 0; k < pairs; ++k)
        for (int v = 0; v < COLUMNS / LANES; ++v)
            total[v] =
                multiply_add(load_words(panel + k * COLUMNS + v * LANES), splat_words(0x00010001), total[v]);
    for (int v = 0; v < COLUMNS / LANES; ++v)
        add_scaled(sums + v * LANES, total[v], scale);
}

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

inline double row_sum(const PackedDigit &a, int row, int pairs) {
    int64_t total = 0;
    for (int k = 0; k < pairs; ++k) {
        const int32_t word = word_at(a.words + row * a.row + k * a.pair);
        total += static_cast<int16_t>(word) + (word >> 16);
    }
    return static_cast<double>(total);
}

// Few columns, everything along the depth: a sum at a time.
inline bool is_dots(const DigitProduct &p) {
    if (p.columns > 8 || !p.a.along_depth || !p.b.along_depth || p.b.offset)
        return false;
    const int terms = 2 * ((p.depth + 2 * LANES - 1) / (2 * LANES)); // that a lane sums
    for (int i = 0; i < p.a.count; ++i)
        for (int j = 0; j < p.b.count; ++j)
            if (p.block[i][j] < terms)
                return false;
    return true;
}

inline int64_t multiply_dots(const DigitProduct &p, const Rounding &r) {
    auto dot = [&](const int16_t *a, const int16_t *b) {
        Words total = zero_words();
        for (int k = 0; k < p.depth; k += 2 * LANES)
            total = multiply_add(a ? load_words(a + k) : splat_words(0x00010001), load_words(b + k), total);
        return sum_lanes(total);
    };
    double base[8] = {};
    if (p.a.offset)
        for (int j = 0; j < p.b.count; ++j)
            for (int column = 0; column < p.columns; ++column)
                base[column] += dot(nullptr, p.b.planes + j * p.b.plane + column * p.b.line) *
                                std::ldexp(p.a.offset, j * p.b.bits);
    int64_t saturated = 0;
    for (int row = 0; row < p.rows; ++row) {
        alignas(64) double sums[COLUMNS] = {};
        std::copy_n(base, p.columns, sums);
        for (int i = 0; i < p.a.count; ++i)
            for (int j = 0; j < p.b.count; ++j)
                for (int column = 0; column < p.columns; ++column)
                    sums[column] += dot(p.a.planes + i * p.a.plane + row * p.a.line,
                                        p.b.planes + j * p.b.plane + column * p.b.line) *
                                    double(int64_t(1) << (i * p.a.bits + j * p.b.bits));
        saturated += round_sums(r, sums, p.columns, p.within, row, 0);
    }
    return saturated;
}

inline int64_t multiply_digits(const DigitProduct &p, const Rounding &r, int32_t *workspace) {
    if (is_dots(p))
        return multiply_dots(p, r);
    const int pairs = (p.depth + 1) / 2;
    int32_t *panels = workspace, *words = panels + long(Digits::MOST) * pairs * COLUMNS;
    PackedDigit a[Digits::MOST];
    for (int i = 0; i < p.a.count; ++i)
        a[i] = packed_rows(p, i, words + i * pairs * ((p.rows + 31L) & ~31L));
    // sum (a + A)(b + B) = sum a b + A sum (b + B) + B sum a, A and B the offsets
    std::vector<double> from_a(static_cast<size_t>(p.b.offset ? p.rows : 0));
    for (size_t row = 0; row < from_a.size(); ++row)
        for (int i = 0; i < p.a.count; ++i)
            from_a[row] += row_sum(a[i], static_cast<int>(row), pairs) * std::ldexp(p.b.offset, i * p.a.bits);
    const bool single =
        p.a.count == 1 && p.b.count == 1 && p.block[0][0] / 2 >= pairs && p.within && r.c_column == 1;
    int64_t saturated = 0;
    alignas(64) double sums[TILE_ROWS * COLUMNS];
    for (int column = 0; column < p.columns; column += COLUMNS) {
        const int columns = std::min(COLUMNS, p.columns - column);
        const int vectors = columns > LANES ? 2 : 1;
        alignas(64) double base[COLUMNS] = {};
        for (int j = 0; j < p.b.count; ++j) {
            int32_t *panel = panels + long(j) * pairs * COLUMNS;
            pack_panel(p.b, j, p.depth, column, columns, panel);
            if (p.a.offset)
                add_column_sums(panel, pairs, p.a.offset * std::ldexp(1.0, j * p.b.bits), base);
        }
        for (double &one : base)
            one += double(p.a.offset) * p.b.offset * p.depth;
        for (int row = 0; row < p.rows;) {
            const int rows = tile_rows(p.rows - row, TILE_ROWS);
            if (single) {
                SINGLE_TILES[vectors - 1][rows - 1](
                    a[0].words + row * a[0].row, a[0].row, a[0].pair, panels, pairs, r, base,
                    p.b.offset ? from_a.data() + row : nullptr, columns, r.c + row * r.c_row + column);
                row += rows;
                continue;
            }
            for (int i = 0; i < rows; ++i)
                for (int j = 0; j < COLUMNS; ++j)
                    sums[i * COLUMNS + j] = base[j] + (p.b.offset ? from_a[static_cast<size_t>(row + i)] : 0);
            for (int i = 0; i < p.a.count; ++i)
                for (int j = 0; j < p.b.count; ++j) {
                    const int block = p.block[i][j] / 2;
                    DIGIT_TILES[vectors - 1][rows - 1](a[i].words + row * a[i].row, a[i].row, a[i].pair,
                                                       panels + long(j) * pairs * COLUMNS, pairs, block,
                                                       std::ldexp(1.0, i * p.a.bits + j * p.b.bits), sums);
                }
            for (int i = 0; i < rows; ++i)
                saturated += round_sums(r, sums + i * COLUMNS, columns, p.within, row + i, column);
            row += rows;
        }
    }
    return saturated;
}

inline double narrow_block(int64_t *result) {
    constexpr int PAIRS = 128, ROUNDS = 200;
    int32_t panel[PAIRS * COLUMNS], a[TILE_ROWS * PAIRS];
    std::fill_n(panel, PAIRS * COLUMNS, static_cast<int32_t>(result[0]));
    std::fill_n(a, TILE_ROWS * PAIRS, static_cast<int32_t>(result[0]));
    alignas(64) double sums[TILE_ROWS * COLUMNS] = {};
    auto *volatile tile = &digit_tile<TILE_ROWS, 2>; // a call that is not seen through
    for (int round = 0; round < ROUNDS; ++round) {
        tile(a, PAIRS, 1, panel, PAIRS, PAIRS, 1.0, sums);
        a[0] = sums[round % LANES] < 0;
    }
    result[0] += a[0];
    return 4.0 * TILE_ROWS * LANES * PAIRS * ROUNDS;
}
