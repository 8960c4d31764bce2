// Steps of environments on a device, one work item each, after the functions of `dynamics/*.h` and these of
// the one environment:
//     STATE, DRAWS, WIDTH (numbers observed), ACTION (LONG or float), EPISODE_STEPS (0: no limit)
//     environment_start, environment_step, environment_observe
//     APPLIED(action): the action that the policy's means
//     ROW_BYTES, OBSERVATION_AT, ACTION_AT, REWARD_AT, NEXT_OBSERVATION_AT, TERMINATED_AT: of a storage's row
//
// counters[0]: vector steps so far; counters[1]: rows written in them. An environment has STATE doubles in
// `states`, four words of its generator in `randoms`, and its episode's length and return in `lengths` and
// `returns`.

// numpy.random.PCG64 (O'Neill 2014, PCG XSL RR 128/64): state and increment, the upper word of each first.
FUNCTION ULONG pcg64_next(ULONG *random) {
    const ULONG upper = (ULONG)0x2360ED05u << 32 | 0x1FC65DA4u,
                lower = (ULONG)0x4385DF64u << 32 | 0x9FCCF645u;
    // The upper word of random[1] * lower, from products of half words.
    const ULONG a = random[1] >> 32, b = random[1] & 0xFFFFFFFFu, c = lower >> 32, d = lower & 0xFFFFFFFFu;
    const ULONG middle = a * d + ((b * d) >> 32);
    const ULONG carried = b * c + (middle & 0xFFFFFFFFu);
    const ULONG high = a * c + (middle >> 32) + (carried >> 32);
    const ULONG product = random[1] * lower, sum = product + random[3];
    random[0] = high + random[1] * upper + random[0] * lower + random[2] + (sum < product);
    random[1] = sum;
    const ULONG mixed = random[0] ^ random[1];
    const int turned = (int)(random[0] >> 58);
    return mixed >> turned | mixed << (-turned & 63);
}

FUNCTION void begin_episode(double *state, ULONG *random) {
    double draws[DRAWS];
    for (int k = 0; k < DRAWS; ++k)
        draws[k] = (double)(pcg64_next(random) >> 11) * (1.0 / 9007199254740992.0);
    environment_start(state, draws);
}

// Begins an episode of every environment; observations are (count, WIDTH) float at byte `observations_at` of
// the arena.
KERNEL(begin_episodes)
(GLOBAL double *states, GLOBAL ULONG *randoms, GLOBAL LONG *lengths, GLOBAL double *returns,
 GLOBAL BYTE *arena, LONG observations_at, LONG count) {
    const LONG i = WORK_ITEM;
    if (i >= count)
        return;
    double state[STATE];
    ULONG random[4];
    float row[WIDTH];
    for (int k = 0; k < 4; ++k)
        random[k] = randoms[4 * i + k];
    begin_episode(state, random);
    environment_observe(state, row);
    for (int k = 0; k < STATE; ++k)
        states[STATE * i + k] = state[k];
    for (int k = 0; k < 4; ++k)
        randoms[4 * i + k] = random[k];
    for (int k = 0; k < WIDTH; ++k)
        ((GLOBAL float *)(arena + observations_at))[WIDTH * i + k] = row[k];
    lengths[i] = 0;
    returns[i] = 0;
}

// A step of every environment, whose transition becomes row (counters[0] * count + i) % capacity, and that
// row's number indices[i], for the tree. Where the episode ends, the next one begins: then its return, which
// is otherwise NaN, is in ended[counters[0] % ended_steps].
KERNEL(step_environments)
(GLOBAL double *states, GLOBAL ULONG *randoms, GLOBAL LONG *lengths, GLOBAL double *returns,
 GLOBAL BYTE *arena, LONG observations_at, LONG actions_at, GLOBAL const LONG *counters, GLOBAL BYTE *rows,
 LONG capacity, GLOBAL LONG *indices, GLOBAL double *ended, LONG ended_steps, LONG count) {
    const LONG i = WORK_ITEM;
    if (i >= count)
        return;
    double state[STATE], reward;
    ULONG random[4];
    float seen[WIDTH];
    GLOBAL float *observation = (GLOBAL float *)(arena + observations_at) + WIDTH * i;
    const ACTION action = ((GLOBAL const ACTION *)(arena + actions_at))[i];
    const LONG row_number = (counters[0] * count + i) % capacity;
    GLOBAL BYTE *row = rows + row_number * ROW_BYTES;
    for (int k = 0; k < STATE; ++k)
        state[k] = states[STATE * i + k];
    for (int k = 0; k < WIDTH; ++k)
        ((GLOBAL float *)(row + OBSERVATION_AT))[k] = observation[k];
    *(GLOBAL ACTION *)(row + ACTION_AT) = action;
    const int terminated = environment_step(state, APPLIED(action), &reward);
    environment_observe(state, seen);
    for (int k = 0; k < WIDTH; ++k)
        ((GLOBAL float *)(row + NEXT_OBSERVATION_AT))[k] = seen[k];
    *(GLOBAL float *)(row + REWARD_AT) = (float)reward;
    row[TERMINATED_AT] = (BYTE)(terminated != 0);
    indices[i] = row_number;
    const LONG length = lengths[i] + 1;
    const double sum = returns[i] + reward;
    const int over = terminated || length == EPISODE_STEPS;
    ended[counters[0] % ended_steps * count + i] = over ? sum : NAN;
    lengths[i] = over ? 0 : length;
    returns[i] = over ? 0 : sum;
    if (over) {
        for (int k = 0; k < 4; ++k)
            random[k] = randoms[4 * i + k];
        begin_episode(state, random);
        environment_observe(state, seen);
        for (int k = 0; k < 4; ++k)
            randoms[4 * i + k] = random[k];
    }
    for (int k = 0; k < STATE; ++k)
        states[STATE * i + k] = state[k];
    for (int k = 0; k < WIDTH; ++k)
        observation[k] = seen[k];
}

KERNEL(count_vector_step)(GLOBAL LONG *counters, GLOBAL const LONG *inserted) {
    if (WORK_ITEM > 0)
        return;
    counters[0] += 1;
    counters[1] += *inserted;
}
