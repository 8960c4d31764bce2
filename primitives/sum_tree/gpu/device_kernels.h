// The sum tree's kernels, in the language of `primitives/device/prelude.h`. REAL is float or double; every
// index has 64 bits; items past `count` do nothing.
//
// values: the root's sum, then each level from the root's children to the leaves, in whole nodes.
// offsets[d]: where level d begins in values.

// indices[b] = the prefix sum index of prefix[b] + rounded_off[b], which is in [0, total) (MAP Algorithm 1).
// The bits that prefix lost in rounding to REAL are added at level `refined_level`, where they count again.
KERNEL(find)
(GLOBAL const REAL *values, GLOBAL const LONG *offsets, int levels, int fanout, int refined_level,
 GLOBAL const REAL *prefix, GLOBAL const REAL *rounded_off, GLOBAL LONG *indices, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    REAL rest = prefix[b];
    LONG node = 0;
    for (int depth = 0; depth < levels; ++depth) {
        if (depth == refined_level) {
            rest += rounded_off[b];
            rest = rest < 0 ? 0 : rest;
        }
        const LONG first = offsets[depth] + node * fanout;
        REAL left = 0;
        REAL before = 0;
        int child = 0;
        // Sums are rounded, so `rest` can reach the node's own sum: then its last child that is not 0.
        for (int i = 0; i < fanout && left <= rest; ++i) {
            const REAL value = values[first + i];
            if (value > 0) {
                child = i;
                before = left;
            }
            left += value;
        }
        rest -= before;
        node = node * fanout + child;
    }
    indices[b] = node;
}

// wrong[0]: whether this update has a wrong index or priority;
// wrong[1]: whether any had, until the host asks.

// Sets both where an index or a priority is not allowed; the kernels below then change nothing.
KERNEL(check)
(GLOBAL const LONG *indices, GLOBAL const REAL *priorities, LONG capacity, REAL priority_max,
 GLOBAL int *wrong, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    const int index_fits = indices[b] >= 0 && indices[b] < capacity;
    const int priority_fits = priorities[b] >= 0 && priorities[b] <= priority_max; // false for NaN
    if (!(index_fits && priority_fits)) {
        wrong[0] = 1;
        wrong[1] = 1;
    }
}

// winner[leaf] = 1 + the last b that has this leaf as its index; winner is 0 between updates.
KERNEL(claim)
(GLOBAL const LONG *indices, GLOBAL int *winner, GLOBAL const int *wrong, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count || *wrong)
        return;
    ATOMIC_MAX(winner + indices[b], (int)b + 1);
}

// The leaves themselves, which begin at values[leaves].
KERNEL(set_leaves)
(GLOBAL REAL *values, LONG leaves, GLOBAL const LONG *indices, GLOBAL const REAL *priorities,
 GLOBAL const int *winner, GLOBAL const int *wrong, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count || *wrong)
        return;
    if (winner[indices[b]] == (int)b + 1)
        values[leaves + indices[b]] = priorities[b];
}

KERNEL(release)
(GLOBAL const LONG *indices, GLOBAL int *winner, GLOBAL const int *wrong, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count || *wrong)
        return;
    winner[indices[b]] = 0;
}

// Sums nodes again: of the level that begins at values[children], into the level
// at values[parents]. Item b takes node indices[b] / leaves_below or, where
// every_node is set, node b. Items that share a node write the same sum.
KERNEL(sum_nodes)
(GLOBAL REAL *values, LONG children, LONG parents, int fanout, GLOBAL const LONG *indices, LONG leaves_below,
 int every_node, GLOBAL const int *wrong, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count || *wrong)
        return;
    const LONG node = every_node ? b : indices[b] / leaves_below;
    REAL sum = 0;
    for (int i = 0; i < fanout; ++i)
        sum += values[children + node * fanout + i];
    values[parents + node] = sum;
}

KERNEL(get)
(GLOBAL const REAL *values, LONG leaves, GLOBAL const LONG *indices, GLOBAL REAL *priorities, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    priorities[b] = values[leaves + indices[b]];
}
