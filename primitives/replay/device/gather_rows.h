// The gather of sampled rows, in the language of `primitives/device/prelude.h`.
//
// A row holds every column of an item, each at a multiple of 4 bytes. table: for each column, in ascending
// order of its first unit: first unit, byte in the row, bytes before the column in the target, further ones
// for each item of the batch, bytes of an item in the target, kind. Kinds: 0: a unit copies 4 bytes; 1: a
// unit copies 1 byte; 2: a unit turns a byte, 0 or 1, into a float.

// Item b of the target, of `count`, = row indices[b]; `units` work items for each b.
KERNEL(gather_rows)
(GLOBAL const BYTE *rows, LONG row_bytes, GLOBAL const LONG *indices, GLOBAL const LONG *table, int columns,
 LONG units, GLOBAL BYTE *target, LONG count) {
    if (WORK_ITEM >= units * count)
        return;
    const LONG b = WORK_ITEM / units;
    const LONG unit = WORK_ITEM % units;
    GLOBAL const LONG *column = table;
    for (int c = 1; c < columns && unit >= table[6 * c]; ++c)
        column = table + 6 * c;
    const LONG own = unit - column[0];
    GLOBAL const BYTE *from = rows + indices[b] * row_bytes + column[1];
    GLOBAL BYTE *to = target + column[2] + column[3] * count + b * column[4];
    if (column[5] == 0)
        ((GLOBAL int *)to)[own] = ((GLOBAL const int *)from)[own];
    else if (column[5] == 1)
        to[own] = from[own];
    else
        ((GLOBAL float *)to)[own] = from[own] ? 1.0f : 0.0f;
}
