// Prioritised replay on the device, with the buffers of the sum tree and `philox.h`, in the language of
// `primitives/device/prelude.h`. REAL is the tree's float or double; values[0] is the total, and the leaves
// begin at values[leaves].

// prefix + rounded_off = a random number of this step times the total. Where `stratified` is set, item b's is
// drawn from part b of `count` equal parts.
KERNEL(draw)
(GLOBAL const LONG *step, UINT key_low, UINT key_high, int stratified, GLOBAL const REAL *values,
 GLOBAL REAL *prefix, GLOBAL REAL *rounded_off, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    UINT words[4];
    counted(words, b, 0, *step, key_low, key_high);
    double uniform = uniform_53(words[0], words[1]);
    if (stratified)
        uniform = (uniform + (double)b) / (double)count;
    const double wanted = uniform * (double)values[0];
    const REAL rounded = (REAL)wanted;
    prefix[b] = rounded;
    rounded_off[b] = (REAL)(wanted - (double)rounded);
}

// weights[b] = (the least priority of the batch / that of indices[b]) ^ beta; the weights begin at byte
// `weights_at` of the target.
GROUP_KERNEL(importance, 256, 1)
(GLOBAL const REAL *values, LONG leaves, GLOBAL const LONG *indices, GLOBAL const double *beta,
 GLOBAL BYTE *target, LONG weights_at, LONG count) {
    LOCAL REAL least[256];
    GLOBAL float *weights = (GLOBAL float *)(target + weights_at);
    ITEMS {
        REAL own = values[leaves + indices[0]];
        for (LONG b = LOCAL_X; b < count; b += 256) {
            const REAL priority = values[leaves + indices[b]];
            own = priority < own ? priority : own;
        }
        least[LOCAL_X] = own;
    }
    for (int width = 128; width > 0; width /= 2) {
        PHASE {
            if (LOCAL_X < width && least[LOCAL_X + width] < least[LOCAL_X])
                least[LOCAL_X] = least[LOCAL_X + width];
        }
    }
    PHASE {
        for (LONG b = LOCAL_X; b < count; b += 256)
            weights[b] = (float)pow((double)least[0] / (double)values[leaves + indices[b]], *beta);
    }
}

// priorities[b] = (|TD error b| + epsilon) ^ alpha, at least `least`; the TD errors begin at byte `errors_at`
// of `source`. A row that was overwritten since *drawn rows had been written keeps its priority. *largest
// becomes the largest priority so far. A TD error that is not finite gives NaN, whatever alpha and the row
// are, which the tree refuses with its batch, as it does a priority above `allowed`: *largest then stays.
GROUP_KERNEL(prioritise, 256, 1)
(GLOBAL const BYTE *source, LONG errors_at, double alpha, double epsilon, double least, double allowed,
 GLOBAL const REAL *values, LONG leaves, GLOBAL const LONG *indices, GLOBAL const LONG *drawn,
 GLOBAL const LONG *written, LONG capacity, GLOBAL REAL *priorities, GLOBAL double *largest, LONG count) {
    LOCAL double most[256];
    GLOBAL const float *td_errors = (GLOBAL const float *)(source + errors_at);
    ITEMS {
        double own = *largest;
        for (LONG b = LOCAL_X; b < count; b += 256) {
            const int is_finite = isfinite(td_errors[b]);
            double priority = is_finite ? pow(fabs((double)td_errors[b]) + epsilon, alpha) : NAN;
            priority = priority < least ? least : priority;
            // The row that was written last has age 0.
            const LONG age = ((*written - 1 - indices[b]) % capacity + capacity) % capacity;
            const int is_set = !is_finite || age >= *written - *drawn;
            priorities[b] = is_set ? (REAL)priority : values[leaves + indices[b]];
            if (is_set && !(priority <= own))
                own = priority <= allowed ? priority : INFINITY;
        }
        most[LOCAL_X] = own;
    }
    for (int width = 128; width > 0; width /= 2) {
        PHASE {
            if (LOCAL_X < width && most[LOCAL_X + width] > most[LOCAL_X])
                most[LOCAL_X] = most[LOCAL_X + width];
        }
    }
    PHASE {
        if (LOCAL_X == 0 && most[0] <= allowed)
            *largest = most[0];
    }
}

// The loop's next step, and its beta: linear from `first` at step 0 to `last` at step `steps`; *drawn becomes
// *written, the number of rows so far.
KERNEL(advance)
(GLOBAL LONG *step, GLOBAL const LONG *written, GLOBAL LONG *drawn, GLOBAL double *beta, double first,
 double last, LONG steps) {
    if (WORK_ITEM > 0)
        return;
    *step += 1;
    *drawn = *written;
    const double fraction = (double)*step / (double)steps;
    *beta = fraction < 1.0 ? first + fraction * (last - first) : last;
}

// The priority of new items, the first *inserted of `indices`: the largest so far. The others keep theirs.
// *written becomes the number of rows so far.
KERNEL(prioritise_new)
(GLOBAL const double *largest, GLOBAL const REAL *values, LONG leaves, GLOBAL const LONG *indices,
 GLOBAL const LONG *inserted, GLOBAL LONG *written, GLOBAL REAL *priorities, LONG count) {
    const LONG i = WORK_ITEM;
    if (i == 0)
        *written += *inserted;
    if (i < count)
        priorities[i] = i < *inserted ? (REAL)*largest : values[leaves + indices[i]];
}
