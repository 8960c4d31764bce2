// What a gradient step on the device needs next to its step graph, after `philox.h`, in the language of
// `primitives/device/prelude.h`.

// Standard normal (Box and Muller 1958).
FUNCTION float normal(UINT first, UINT second) {
    const float radius = sqrt(-2.0f * log(((float)first + 1.0f) * 0x1p-32f));
    return radius * cos((float)second * (6.2831853f * 0x1p-32f));
}

// Random numbers of a step, (count,) float at byte `numbers_at` of the arena: standard normal, or if
// `uniform` is 1 those of [-1, 1].
KERNEL(draw_numbers)
(GLOBAL const LONG *step, UINT key_low, UINT key_high, UINT stream, GLOBAL BYTE *arena, LONG numbers_at,
 LONG uniform, LONG count) {
    const LONG i = WORK_ITEM;
    if (i >= count)
        return;
    UINT words[4];
    counted(words, i, stream, *step, key_low, key_high);
    ((GLOBAL float *)(arena + numbers_at))[i] =
        uniform ? (float)words[0] * 0x1p-31f - 1.0f : normal(words[0], words[1]);
}

// sums[places[2 i + 1]] += the float at byte places[2 i] of the arena, and the number of sums that it is in.
// It is the end of a step.
KERNEL(end_step)
(GLOBAL LONG *step, GLOBAL const BYTE *arena, GLOBAL const LONG *places, GLOBAL double *sums,
 GLOBAL LONG *numbers, LONG count) {
    const LONG i = WORK_ITEM;
    if (i == 0)
        *step += 1;
    if (i >= count)
        return;
    sums[places[2 * i + 1]] += *(GLOBAL const float *)(arena + places[2 * i]);
    numbers[places[2 * i + 1]] += 1;
}
