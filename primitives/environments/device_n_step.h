// n-step transitions (`replay/n_step.py`) of environments on a device, after `device_environments.h`: its
// transitions of one step are rows of a ring of the last `most` steps, from which these kernels make the
// storage's. Also defined is DISCOUNT_AT.

// For each environment that begun a transition in `live` steps which is not complete: how many complete
// transitions come before its own in this step, how many of its own are complete, and how many were begun.
// Its episode is over where its return, which may be infinite, is not NaN.
GROUP_KERNEL(count_transitions, 256, 1)
(GLOBAL const LONG *counters, GLOBAL const double *ended, LONG ended_steps, GLOBAL LONG *live,
 GLOBAL LONG *complete, GLOBAL LONG *inserted, LONG most, LONG count) {
    LOCAL LONG sums[256];
    PRIVATE(LONG, before);
    const LONG each = (count + 255) / 256;
    GLOBAL const double *returns = ended + counters[0] % ended_steps * count;
    ITEMS {
        LONG sum = 0;
        for (LONG i = LOCAL_X * each; i < count && i < (LOCAL_X + 1) * each; ++i) {
            const LONG begun = live[i] + 1;
            const LONG own = returns[i] == returns[i] ? begun : begun == most;
            complete[3 * i] = sum;
            complete[3 * i + 1] = own;
            complete[3 * i + 2] = begun;
            live[i] = begun - own;
            sum += own;
        }
        sums[LOCAL_X] = sum;
    }
    for (int width = 1; width < 256; width *= 2) {
        PHASE { MINE(before) = LOCAL_X < width ? 0 : sums[LOCAL_X - width]; }
        PHASE { sums[LOCAL_X] += MINE(before); }
    }
    PHASE {
        for (LONG i = LOCAL_X * each; LOCAL_X > 0 && i < count && i < (LOCAL_X + 1) * each; ++i)
            complete[3 * i] += sums[LOCAL_X - 1];
        if (LOCAL_X == 255)
            *inserted = sums[255];
    }
}

// Writes transition k of environment i, item most * i + k, where it is complete. powers[m]: the discount of m
// steps. `indices` are the rows of the new transitions, and then the row after them.
KERNEL(complete_transitions)
(GLOBAL const BYTE *steps, GLOBAL BYTE *rows, LONG capacity, GLOBAL const LONG *counters,
 GLOBAL const LONG *complete, GLOBAL const LONG *inserted, GLOBAL LONG *indices, GLOBAL const double *powers,
 LONG most, LONG count) {
    const LONG item = WORK_ITEM;
    if (item >= most * count)
        return;
    if (item >= *inserted)
        indices[item] = (counters[1] + *inserted) % capacity;
    const LONG i = item / most, k = item % most;
    if (k >= complete[3 * i + 1])
        return;
    const LONG length = complete[3 * i + 2] - k, last = counters[0], first = last - length + 1;
    double sum = 0;
    for (LONG m = 0; m < length; ++m) {
        GLOBAL const BYTE *step = steps + ((first + m) % most * count + i) * ROW_BYTES;
        sum += powers[m] * (double)*(GLOBAL const float *)(step + REWARD_AT);
    }
    GLOBAL const BYTE *begun = steps + (first % most * count + i) * ROW_BYTES;
    GLOBAL const BYTE *over = steps + (last % most * count + i) * ROW_BYTES;
    const LONG number = complete[3 * i] + k, row_number = (counters[1] + number) % capacity;
    GLOBAL BYTE *row = rows + row_number * ROW_BYTES;
    for (int w = 0; w < WIDTH; ++w) {
        ((GLOBAL float *)(row + OBSERVATION_AT))[w] = ((GLOBAL const float *)(begun + OBSERVATION_AT))[w];
        ((GLOBAL float *)(row + NEXT_OBSERVATION_AT))[w] =
            ((GLOBAL const float *)(over + NEXT_OBSERVATION_AT))[w];
    }
    *(GLOBAL ACTION *)(row + ACTION_AT) = *(GLOBAL const ACTION *)(begun + ACTION_AT);
    *(GLOBAL float *)(row + REWARD_AT) = (float)sum;
    row[TERMINATED_AT] = over[TERMINATED_AT];
    *(GLOBAL float *)(row + DISCOUNT_AT) = (float)powers[length];
    indices[number] = row_number;
}
