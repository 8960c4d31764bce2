// The sum tree's kernels that need double precision, which some OpenCL devices lack. They follow
// `device_kernels.h`.

// prefix + rounded_off = uniform * total, below the total; uniform is in [0, 1).
KERNEL(scale)
(GLOBAL const double *uniform, GLOBAL const REAL *values, GLOBAL REAL *prefix, GLOBAL REAL *rounded_off,
 LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    const double wanted = uniform[b] * (double)values[0];
    const REAL rounded = (REAL)wanted;
    prefix[b] = rounded;
    rounded_off[b] = (REAL)(wanted - (double)rounded);
}
