// MountainCar-v0 and MountainCarContinuous-v0 of Gymnasium 1.x. State: place, speed, and for continuous
// actions whether the episode is new.

#define MOUNTAIN_CAR_STATE 2
#define MOUNTAIN_CAR_DRAWS 1
#define MOUNTAIN_CAR_CONTINUOUS_STATE 3
#define MOUNTAIN_CAR_CONTINUOUS_DRAWS 1
#define MOUNTAIN_CAR_MIN (-1.2)
#define MOUNTAIN_CAR_MAX 0.6
#define MOUNTAIN_CAR_SPEED_MAX 0.07

FUNCTION void mountain_car_start(double *state, const double *draws) {
    state[0] = -0.6 + (-0.4 - -0.6) * draws[0];
    state[1] = 0;
}

FUNCTION int mountain_car_step(double *state, LONG action, double *reward) {
    double speed = state[1] + ((double)(action - 1) * 0.001 + cos(3 * state[0]) * -0.0025);
    speed = bounded(speed, -MOUNTAIN_CAR_SPEED_MAX, MOUNTAIN_CAR_SPEED_MAX);
    const double place = bounded(state[0] + speed, MOUNTAIN_CAR_MIN, MOUNTAIN_CAR_MAX);
    if (place == MOUNTAIN_CAR_MIN && speed < 0)
        speed = 0;
    state[0] = place;
    state[1] = speed;
    *reward = -1;
    return place >= 0.5 && speed >= 0;
}

FUNCTION void mountain_car_observe(const double *state, float *row) {
    row[0] = (float)state[0];
    row[1] = (float)state[1];
}

FUNCTION void mountain_car_continuous_start(double *state, const double *draws) {
    mountain_car_start(state, draws);
    state[2] = 1;
}

// Gymnasium stores this state as floats, but a new episode's as doubles: the first step has other arithmetic
// than those that follow. Beside a NumPy float a Python number is rounded to a float. An action out of bounds
// is clipped to a Python number, so that doubles are subtracted. A place or speed that was set to its bound
// is compared as a double, but no bound is near the goal.
#define MOUNTAIN_CAR_ADVANCE(NAME, REAL)                                                                     \
    FUNCTION int NAME(double *state, float action) {                                                         \
        REAL place = (REAL)state[0], speed = (REAL)state[1];                                                 \
        const double slope = 0.0025 * cos((double)((REAL)3 * place));                                        \
        if (action < -1 || action > 1)                                                                       \
            speed += (REAL)((action < 0 ? -1.0 : 1.0) * 0.0015 - slope);                                     \
        else                                                                                                 \
            speed += (REAL)(action * 0.0015f - (float)slope);                                                \
        if (speed > (REAL)MOUNTAIN_CAR_SPEED_MAX)                                                            \
            speed = (REAL)MOUNTAIN_CAR_SPEED_MAX;                                                            \
        if (speed < (REAL)(-MOUNTAIN_CAR_SPEED_MAX))                                                         \
            speed = (REAL)(-MOUNTAIN_CAR_SPEED_MAX);                                                         \
        place += speed;                                                                                      \
        if (place > (REAL)MOUNTAIN_CAR_MAX)                                                                  \
            place = (REAL)MOUNTAIN_CAR_MAX;                                                                  \
        if (place < (REAL)MOUNTAIN_CAR_MIN)                                                                  \
            place = (REAL)MOUNTAIN_CAR_MIN;                                                                  \
        if (place == (REAL)MOUNTAIN_CAR_MIN && speed < 0)                                                    \
            speed = 0;                                                                                       \
        state[0] = (double)(float)place;                                                                     \
        state[1] = (double)(float)speed;                                                                     \
        state[2] = 0;                                                                                        \
        return place >= (REAL)0.45 && speed >= 0;                                                            \
    }
MOUNTAIN_CAR_ADVANCE(mountain_car_first, double)
MOUNTAIN_CAR_ADVANCE(mountain_car_later, float)

FUNCTION int mountain_car_continuous_step(double *state, float action, double *reward) {
    const int done = state[2] != 0 ? mountain_car_first(state, action) : mountain_car_later(state, action);
    *reward = done ? 100.0 : 0.0;
    *reward -= power_2((double)action) * 0.1;
    return done;
}

FUNCTION void mountain_car_continuous_observe(const double *state, float *row) {
    mountain_car_observe(state, row);
}
