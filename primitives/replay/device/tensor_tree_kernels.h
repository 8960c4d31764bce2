// A sum tree whose draws and updates are tensors (`tensor_tree.py`), with the buffers of
// `sum_tree/gpu/device_kernels.h`, in the language of `primitives/device/prelude.h`.
//
// least: of each node above the leaves, in the positions of `values`, the smallest positive leaf below it; 0
// where there is none.

// The smaller of two priorities, of which 0 is none.
FUNCTION REAL smaller(REAL one, REAL other) { return one == 0 || (other > 0 && other < one) ? other : one; }

// `sum_nodes`, which also finds the smallest leaves again; the children are leaves where `of_leaves` is set.
KERNEL(sum_and_least)
(GLOBAL REAL *values, LONG children, LONG parents, int fanout, GLOBAL const LONG *indices, LONG leaves_below,
 int every_node, GLOBAL const int *wrong, LONG count, GLOBAL REAL *least, int of_leaves) {
    const LONG b = WORK_ITEM;
    if (b >= count || *wrong)
        return;
    const LONG node = every_node ? b : indices[b] / leaves_below;
    const LONG first = children + node * fanout;
    REAL sum = 0;
    REAL smallest = 0;
    for (int i = 0; i < fanout; ++i) {
        sum += values[first + i];
        smallest = smaller(smallest, of_leaves ? values[first + i] : least[first + i]);
    }
    values[parents + node] = sum;
    least[parents + node] = smallest;
}

// prefix[b] + rounded_off[b] = uniform[b] times the sum of the first `items` of all `leaves`; *smallest is
// the smallest positive one of them.
KERNEL(place)
(GLOBAL const double *uniform, GLOBAL const REAL *values, GLOBAL const REAL *least,
 GLOBAL const LONG *offsets, int levels, int fanout, LONG leaves, LONG items, GLOBAL REAL *prefix,
 GLOBAL REAL *rounded_off, GLOBAL REAL *smallest, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    double sum = values[0];
    REAL own = least[0];
    if (items < leaves) { // the nodes left of the path to leaf `items`
        LONG below = 1;
        for (int depth = 1; depth < levels; ++depth)
            below *= fanout;
        sum = 0;
        own = 0;
        LONG node = 0;
        for (int depth = 0; depth < levels; ++depth) {
            const LONG first = offsets[depth] + node * fanout;
            const int child = (int)(items / below - node * fanout);
            for (int i = 0; i < child; ++i) {
                sum += values[first + i];
                own = smaller(own, depth + 1 < levels ? least[first + i] : values[first + i]);
            }
            node = node * fanout + child;
            below /= fanout;
        }
    }
    const double wanted = uniform[b] * sum;
    const REAL rounded = (REAL)wanted;
    prefix[b] = rounded;
    rounded_off[b] = (REAL)(wanted - (double)rounded);
    if (b == 0)
        *smallest = own;
}

// priorities[b] = that of indices[b], which rounding may have put past the first `items` leaves.
KERNEL(read_drawn)
(GLOBAL const REAL *values, LONG first_leaf, LONG items, GLOBAL LONG *indices, GLOBAL REAL *priorities,
 LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    const LONG index = indices[b] < items ? indices[b] : items - 1;
    indices[b] = index;
    priorities[b] = values[first_leaf + index];
}

// rows[b] and priorities[b] = what an update sets: (raw + epsilon) ^ alpha, but at least `at_least`, at
// indices[b]. raw has one number for all where `raw_step` is 0. A negative index sets nothing: its row is
// `spare`, whose priority stays 0. All are so, and *told becomes 1, where an index is `spare` or more, a raw
// priority is negative or not finite, or its power is above `allowed`. *after = the larger of *before, NaN if
// there is none, and the raw priorities; *after_at = the index of it.
GROUP_KERNEL(admit, 256, 1)
(GLOBAL const LONG *indices, GLOBAL const REAL *raw, LONG raw_step, double alpha, double epsilon,
 double at_least, double allowed, LONG spare, GLOBAL const REAL *before, GLOBAL const LONG *before_at,
 GLOBAL LONG *rows, GLOBAL REAL *priorities, GLOBAL REAL *after, GLOBAL LONG *after_at, GLOBAL int *told,
 LONG count) {
    LOCAL REAL most[256];
    LOCAL LONG most_at[256];
    LOCAL int wrong[256];
    ITEMS {
        REAL own = -1;
        LONG own_at = count;
        int own_wrong = 0;
        for (LONG b = LOCAL_X; b < count; b += 256) {
            const REAL given = raw[b * raw_step];
            const double power = pow((double)given + epsilon, alpha);
            const double set = power < at_least ? at_least : power;
            const int fits = indices[b] < spare && given >= 0 && isfinite(given) && set <= allowed;
            if (indices[b] >= 0 && !fits)
                own_wrong = 1;
            if (indices[b] >= 0 && given > own) {
                own = given;
                own_at = b;
            }
            rows[b] = indices[b] < 0 ? spare : indices[b];
            priorities[b] = indices[b] < 0 || !fits ? (REAL)0 : (REAL)set;
        }
        most[LOCAL_X] = own;
        most_at[LOCAL_X] = own_at;
        wrong[LOCAL_X] = own_wrong;
    }
    for (int width = 128; width > 0; width /= 2) {
        PHASE {
            if (LOCAL_X < width) {
                const REAL other = most[LOCAL_X + width];
                const LONG other_at = most_at[LOCAL_X + width];
                if (other > most[LOCAL_X] || (other == most[LOCAL_X] && other_at < most_at[LOCAL_X])) {
                    most[LOCAL_X] = other;
                    most_at[LOCAL_X] = other_at;
                }
                wrong[LOCAL_X] |= wrong[LOCAL_X + width];
            }
        }
    }
    PHASE {
        if (wrong[0])
            for (LONG b = LOCAL_X; b < count; b += 256) {
                rows[b] = spare;
                priorities[b] = 0;
            }
        if (LOCAL_X == 0) {
            const int is_larger = !wrong[0] && most_at[0] < count && !(most[0] <= *before);
            *after = is_larger ? most[0] : *before;
            *after_at = is_larger ? indices[most_at[0]] : *before_at;
            if (wrong[0])
                *told = 1;
        }
    }
}
