// What an iteration of PPO on a device needs next to environments and step graphs, after `device/philox.h`,
// in the language of `primitives/device/prelude.h`.
//
// counters[0]: vector steps so far, of which an iteration has `length`. Sample t * count + i is that of
// environment i in vector step t. numbers, (3, samples): log-probability, advantage, value target.

// Gumbel noise, (count,) float at byte `noise_at` of the arena.
KERNEL(draw_gumbel)
(GLOBAL const LONG *counters, UINT key_low, UINT key_high, UINT stream, GLOBAL BYTE *arena, LONG noise_at,
 LONG count) {
    const LONG i = WORK_ITEM;
    if (i >= count)
        return;
    UINT words[4];
    counted(words, i, stream, counters[0], key_low, key_high);
    const double uniform = ((double)words[0] + 0.5) * 0x1p-32;
    ((GLOBAL float *)(arena + noise_at))[i] = (float)-log(-log(uniform));
}

// Generalised advantages of each environment's samples (`algorithms.ppo.advantages`), and value targets.
// `values` and those at byte `next_values_at` of the arena: of the states before and after each sample.
// rows: the transitions. A return in `ended` that is not NaN says that the sample's episode is over.
KERNEL(estimate_advantages)
(GLOBAL const LONG *counters, GLOBAL const BYTE *rows, LONG row_bytes, LONG reward_at, LONG terminated_at,
 GLOBAL const double *ended, LONG ended_steps, GLOBAL const float *values, GLOBAL const BYTE *arena,
 LONG next_values_at, GLOBAL float *numbers, float discount, double decay, LONG length, LONG count) {
    const LONG i = WORK_ITEM;
    if (i >= count)
        return;
    double carried = 0;
    for (LONG t = length - 1; t >= 0; --t) {
        const LONG sample = t * count + i;
        GLOBAL const BYTE *row = rows + sample * row_bytes;
        const double total = ended[(counters[0] - length + t) % ended_steps * count + i];
        const float next = row[terminated_at] ? 0 : ((GLOBAL const float *)(arena + next_values_at))[sample];
        const float delta = *(GLOBAL const float *)(row + reward_at) + discount * next - values[sample];
        carried = delta + (total == total ? 0 : decay) * carried;
        numbers[length * count + sample] = (float)carried;
        numbers[2 * length * count + sample] = (float)carried + values[sample];
    }
}

FUNCTION UINT scrambled(UINT x, UINT key) {
    x = (x ^ key) * 0x9E3779B1u;
    x = (x ^ x >> 15) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

// Where `item` is in a random order of `count` items below 2^62: a Feistel network permutes the numbers of as
// many bits as these take, and is applied until the result is one of them (Black and Rogaway 2002).
FUNCTION LONG shuffled(LONG item, LONG count, const UINT *keys) {
    int bits = 2;
    while (((LONG)1 << bits) < count)
        ++bits;
    const int low = bits / 2;
    const UINT of_low = ((UINT)1 << low) - 1, of_high = (UINT)(((ULONG)1 << (bits - low)) - 1);
    do {
        UINT right = (UINT)item & of_low, left = (UINT)(item >> low);
        for (int round = 0; round < 8; round += 2) {
            left ^= scrambled(right, keys[round]) & of_high;
            right ^= scrambled(left, keys[round + 1]) & of_low;
        }
        item = (LONG)left << low | right;
    } while (item >= count);
    return item;
}

// A minibatch: the samples from place `first` on in the random order of an epoch. order: their numbers. The
// rest of them goes to bytes `log_probability_at`, `advantage_at`, `target_at` of the arena, (batch,) each.
KERNEL(deal_samples)
(GLOBAL const LONG *counters, UINT key_low, UINT key_high, UINT stream, LONG length, LONG epochs, LONG epoch,
 LONG first, GLOBAL const float *numbers, LONG samples, GLOBAL LONG *order, GLOBAL BYTE *arena,
 LONG log_probability_at, LONG advantage_at, LONG target_at, LONG batch) {
    const LONG i = WORK_ITEM;
    if (i >= batch)
        return;
    UINT keys[8];
    const LONG epochs_before = (counters[0] / length - 1) * epochs;
    for (int four = 0; four < 2; ++four)
        counted(keys + 4 * four, four, stream, epochs_before + epoch, key_low, key_high);
    const LONG sample = shuffled(first + i, samples, keys);
    order[i] = sample;
    ((GLOBAL float *)(arena + log_probability_at))[i] = numbers[sample];
    ((GLOBAL float *)(arena + advantage_at))[i] = numbers[samples + sample];
    ((GLOBAL float *)(arena + target_at))[i] = numbers[2 * samples + sample];
}

// Early stopping: after the first step whose KL divergence exceeds `most`, *stopped is 1 until the iteration
// ends, and restore_words undoes what a step did to `count` words from byte `at` of the arena on.
KERNEL(restore_words)
(GLOBAL const UINT *stopped, GLOBAL BYTE *arena, LONG at, GLOBAL const UINT *saved, LONG from, LONG count) {
    const LONG i = WORK_ITEM;
    if (i < count && *stopped)
        ((GLOBAL UINT *)(arena + at))[i] = saved[from + i];
}

KERNEL(stop_early)(GLOBAL UINT *stopped, GLOBAL const BYTE *arena, LONG kl_at, double most) {
    if (WORK_ITEM == 0 && (double)*(GLOBAL const float *)(arena + kl_at) > most)
        *stopped = 1;
}
