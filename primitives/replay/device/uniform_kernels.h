// Uniform replay on the device, after `philox.h`, in the language of `primitives/device/prelude.h`.

// Rows of a batch, from all of the ring of `capacity` rows that were written, with weights of 1 from byte
// `weights_at` of the target on. Where `stratified` is set, item b's row is drawn from part b of `count`
// equal parts.
KERNEL(draw_rows)
(GLOBAL const LONG *step, UINT key_low, UINT key_high, int stratified, GLOBAL const LONG *written,
 LONG capacity, GLOBAL LONG *indices, GLOBAL BYTE *target, LONG weights_at, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    UINT words[4];
    counted(words, b, 0, *step, key_low, key_high);
    double uniform = uniform_53(words[0], words[1]);
    if (stratified)
        uniform = (uniform + (double)b) / (double)count;
    const LONG held = *written < capacity ? *written : capacity, row = (LONG)(uniform * (double)held);
    indices[b] = row < held ? row : held - 1; // a product may round up
    ((GLOBAL float *)(target + weights_at))[b] = 1.0f;
}

KERNEL(count_batch)(GLOBAL LONG *step) {
    if (WORK_ITEM == 0)
        *step += 1;
}

// *wrong becomes 1 where a TD error, from byte `errors_at` of `source` on, is not finite.
KERNEL(check_errors)(GLOBAL const BYTE *source, LONG errors_at, GLOBAL LONG *wrong, LONG count) {
    const LONG b = WORK_ITEM;
    if (b < count && !isfinite(((GLOBAL const float *)(source + errors_at))[b]))
        *wrong = 1;
}

KERNEL(count_rows)(GLOBAL LONG *written, GLOBAL const LONG *inserted) {
    if (WORK_ITEM == 0)
        *written += *inserted;
}
