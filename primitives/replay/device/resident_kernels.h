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
    words[0] = (UINT)b;
    words[1] = 0;
    words[2] = (UINT)*step;
    words[3] = (UINT)(*step >> 32);
    philox(words, key_low, key_high);
    // 53 bits, 27 of the first word and 26 of the second.
    double uniform = ((words[0] >> 5) * 67108864.0 + (words[1] >> 6)) * 0x1p-53;
    if (stratified)
        uniform = (uniform + (double)b) / (double)count;
    const double wanted = uniform * (double)values[0];
    const REAL rounded = (REAL)wanted;
    prefix[b] = rounded;
    rounded_off[b] = (REAL)(wanted - (double)rounded);
}

// weights[b] = (the least priority of the batch / that of indices[b]) ^ beta; the leaves begin at
// values[leaves].
GROUP_KERNEL(importance, 256, 1)
(GLOBAL const REAL *values, LONG leaves, GLOBAL const LONG *indices, GLOBAL const double *beta,
 GLOBAL float *weights, LONG count) {
    LOCAL REAL least[256];
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

// priorities[b] = (|td_errors[b]| + epsilon) ^ alpha, at least `least`: of an item whose TD error is this.
KERNEL(prioritise)
(GLOBAL const float *td_errors, double alpha, double epsilon, double least, GLOBAL REAL *priorities,
 LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    const double priority = pow(fabs((double)td_errors[b]) + epsilon, alpha);
    priorities[b] = (REAL)(priority < least ? least : priority);
}

// The loop's next step.
KERNEL(advance)(GLOBAL LONG *step, LONG count) {
    if (WORK_ITEM < count)
        step[WORK_ITEM] += 1;
}
