// The gather of sampled rows, in the language of `primitives/device/prelude.h`.
//
// A row holds every column of an item, each at a multiple of 4 bytes. table: for each column, in ascending
// order of its first unit: first unit, byte in the row, byte in the target, bytes of an item in the target,
// kind. Kinds: 0: a unit copies 4 bytes; 1: a unit copies 1 byte; 2: a unit turns a byte, 0 or 1, into a
// float.

// Item b of the target = row indices[b]; `units` work items for each b.
KERNEL(gather_rows)
(GLOBAL const BYTE *rows, LONG row_bytes, GLOBAL const LONG *indices, GLOBAL const LONG *table, int columns,
 LONG units, GLOBAL BYTE *target, LONG count) {
    if (WORK_ITEM >= count)
        return;
    const LONG b = WORK_ITEM / units;
    const LONG unit = WORK_ITEM % units;
    GLOBAL const LONG *column = table;
    for (int c = 1; c < columns && unit >= table[5 * c]; ++c)
        column = table + 5 * c;
    const LONG own = unit - column[0];
    GLOBAL const BYTE *from = rows + indices[b] * row_bytes + column[1];
    GLOBAL BYTE *to = target + column[2] + b * column[3];
    if (column[4] == 0)
        ((GLOBAL int *)to)[own] = ((GLOBAL const int *)from)[own];
    else if (column[4] == 1)
        to[own] = from[own];
    else
        ((GLOBAL float *)to)[own] = from[own] ? 1.0f : 0.0f;
}
