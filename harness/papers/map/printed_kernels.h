// MAP's Algorithms 1 and 2 for one work item per query, on the layout and with REAL of the sum tree's
// kernels, in the language of `primitives/device/prelude.h`. For MAP's claims alone: Algorithm 2 as printed
// keeps no sum tree.
//
// nodes[d]: nodes that exist at level d; 0 are the root's children.

// Algorithm 1: takes the values of children off until one would leave less than 0; the last child where none
// does.
KERNEL(printed_find)
(GLOBAL const REAL *values, GLOBAL const LONG *offsets, GLOBAL const LONG *nodes, int levels, int fanout,
 GLOBAL const REAL *prefix, GLOBAL LONG *indices, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    REAL current = prefix[b];
    LONG node = 0;
    for (int depth = 0; depth < levels; ++depth) {
        const LONG first = node * fanout;
        for (LONG child = first; child < first + fanout && child < nodes[depth]; ++child) {
            const REAL cumulative = current - values[offsets[depth] + child];
            node = child;
            if (cumulative < 0)
                break;
            current = cumulative;
        }
    }
    indices[b] = node;
}

// Algorithm 2. `fixes` is a set of bits: 1 subtracts the old priority from the new one, instead of the
// reverse; 2 adds to the root too; 4 swaps the leaf in one step, so that items with the same index do not
// read the same old priority.
KERNEL(printed_update)
(GLOBAL REAL *values, GLOBAL const LONG *offsets, int levels, int fanout, GLOBAL const LONG *indices,
 GLOBAL const REAL *priorities, int fixes, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    LONG node = indices[b];
    GLOBAL REAL *leaf = values + offsets[levels - 1] + node;
    const REAL old = fixes & 4 ? ATOMIC_EXCHANGE(leaf, priorities[b]) : *leaf;
    const REAL change = fixes & 1 ? priorities[b] - old : old - priorities[b];
    for (int depth = levels - 1; depth >= 0; --depth) {
        if (depth < levels - 1 || !(fixes & 4))
            ATOMIC_ADD(values + offsets[depth] + node, change);
        node /= fanout;
    }
    if (fixes & 2)
        ATOMIC_ADD(values, change);
}
