// Random numbers of actions on a device, after `device/philox.h`, in the language of
// `primitives/device/prelude.h`. counters[0]: vector steps so far.

// Epsilon-greedy actions: `bonus`, (count, actions) float at byte `bonus_at` of the arena, is 0 but for an
// action that was drawn at random, with a probability that changes linearly from `first` to `last` over
// `steps` environment steps.
KERNEL(draw_bonus)
(GLOBAL const LONG *counters, UINT key_low, UINT key_high, UINT stream, GLOBAL BYTE *arena, LONG bonus_at,
 LONG actions, double first, double last, LONG steps, float larger, LONG count) {
    const LONG i = WORK_ITEM;
    if (i >= count)
        return;
    UINT words[4];
    counted(words, i, stream, counters[0], key_low, key_high);
    const double progress = (double)(counters[0] * count) / (double)steps;
    const double epsilon = first + (progress < 1.0 ? progress : 1.0) * (last - first);
    const LONG chosen = (LONG)((ULONG)words[2] * (ULONG)actions >> 32);
    const int is_random = uniform_53(words[0], words[1]) < epsilon;
    for (LONG k = 0; k < actions; ++k)
        ((GLOBAL float *)(arena + bonus_at))[actions * i + k] = is_random && k == chosen ? larger : 0.0f;
}

// Uniform actions, (count,) of [0, actions).
KERNEL(draw_choices)
(GLOBAL const LONG *counters, UINT key_low, UINT key_high, UINT stream, GLOBAL BYTE *arena, LONG actions_at,
 LONG actions, LONG count) {
    const LONG i = WORK_ITEM;
    if (i >= count)
        return;
    UINT words[4];
    counted(words, i, stream, counters[0], key_low, key_high);
    ((GLOBAL LONG *)(arena + actions_at))[i] = (LONG)((ULONG)words[0] * (ULONG)actions >> 32);
}
