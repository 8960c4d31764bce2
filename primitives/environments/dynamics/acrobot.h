// Acrobot-v1 of Gymnasium 1.x: the equations of Sutton and Barto's book, a Runge-Kutta step of 0.2 s. State:
// two angles, two angular speeds, sine and cosine of the second angle, and the four that are observed.

#define ACROBOT_STATE 10
#define ACROBOT_DRAWS 4

// Gymnasium begins with floats, whose first observation is computed in floats.
FUNCTION void acrobot_start(double *state, const double *draws) {
    float start[4];
    for (int k = 0; k < 4; ++k) {
        start[k] = (float)(-0.1 + (0.1 - -0.1) * draws[k]);
        state[k] = start[k];
    }
    turn(state[1], state + 4, state + 5);
    state[6] = cosine_float(start[0]);
    state[7] = sine_float(start[0]);
    state[8] = cosine_float(start[1]);
    state[9] = sine_float(start[1]);
}

FUNCTION double acrobot_wrap(double angle) {
    const double around = ENVIRONMENT_PI - -ENVIRONMENT_PI;
    while (angle > ENVIRONMENT_PI)
        angle = angle - around;
    while (angle < -ENVIRONMENT_PI)
        angle = angle + around;
    return angle;
}

// Masses, lengths and moments of inertia are 1, centres of mass half-way; products with 1 are left out.
FUNCTION void acrobot_derive(const double *at, double cosine_2, double sine_2, double torque, double *rate) {
    const double theta_1 = at[0], theta_2 = at[1], dot_1 = at[2], dot_2 = at[3];
    const double d1 = 0.25 + (1.25 + cosine_2) + 1.0 + 1.0;
    const double d2 = (0.25 + 0.5 * cosine_2) + 1.0;
    const double phi2 = 0.5 * 9.8 * cosine(theta_1 + theta_2 - ENVIRONMENT_PI / 2.0);
    const double phi1 = -0.5 * power_2(dot_2) * sine_2 - dot_2 * dot_1 * sine_2 +
                        1.5 * 9.8 * cosine(theta_1 - ENVIRONMENT_PI / 2) + phi2;
    const double acceleration_2 =
        (torque + d2 / d1 * phi1 - 0.5 * power_2(dot_1) * sine_2 - phi2) / (0.25 + 1.0 - power_2(d2) / d1);
    rate[0] = dot_1;
    rate[1] = dot_2;
    rate[2] = -(d2 * acceleration_2 + phi1) / d1;
    rate[3] = acceleration_2;
}

FUNCTION int acrobot_step(double *state, LONG action, double *reward) {
    const double torque = (double)(action - 1);
    const double dt = 0.2, half_dt = dt / 2.0;
    double next[4], k1[4], k2[4], k3[4], k4[4], sine_1, cosine_1, sine_2, cosine_2;
    acrobot_derive(state, state[5], state[4], torque, k1);
    for (int k = 0; k < 4; ++k)
        next[k] = state[k] + half_dt * k1[k];
    turn(next[1], &sine_2, &cosine_2);
    acrobot_derive(next, cosine_2, sine_2, torque, k2);
    for (int k = 0; k < 4; ++k)
        next[k] = state[k] + half_dt * k2[k];
    turn(next[1], &sine_2, &cosine_2);
    acrobot_derive(next, cosine_2, sine_2, torque, k3);
    for (int k = 0; k < 4; ++k)
        next[k] = state[k] + dt * k3[k];
    turn(next[1], &sine_2, &cosine_2);
    acrobot_derive(next, cosine_2, sine_2, torque, k4);
    for (int k = 0; k < 4; ++k)
        next[k] = state[k] + dt / 6.0 * (k1[k] + 2 * k2[k] + 2 * k3[k] + k4[k]);
    state[0] = acrobot_wrap(next[0]);
    state[1] = acrobot_wrap(next[1]);
    state[2] = bounded(next[2], -4 * ENVIRONMENT_PI, 4 * ENVIRONMENT_PI);
    state[3] = bounded(next[3], -9 * ENVIRONMENT_PI, 9 * ENVIRONMENT_PI);
    turn(state[0], &sine_1, &cosine_1);
    turn(state[1], state + 4, state + 5);
    state[6] = (float)cosine_1;
    state[7] = (float)sine_1;
    state[8] = (float)state[5];
    state[9] = (float)state[4];
    const int done = -cosine_1 - cosine(state[1] + state[0]) > 1.0;
    *reward = done ? 0.0 : -1.0;
    return done;
}

FUNCTION void acrobot_observe(const double *state, float *row) {
    for (int k = 0; k < 4; ++k)
        row[k] = (float)state[6 + k];
    row[4] = (float)state[2];
    row[5] = (float)state[3];
}
