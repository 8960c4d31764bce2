// Pendulum-v1 of Gymnasium 1.x. State: angle, angular speed, and the angle's cosine and sine, which the
// observation and the next step need.

#define PENDULUM_STATE 4
#define PENDULUM_DRAWS 2

FUNCTION void pendulum_start(double *state, const double *draws) {
    state[0] = -ENVIRONMENT_PI + (ENVIRONMENT_PI - -ENVIRONMENT_PI) * draws[0];
    state[1] = -1.0 + 2.0 * draws[1];
    turn(state[0], state + 3, state + 2);
}

// The torque stays a float, as NumPy's numbers of that type do beside Python's.
FUNCTION int pendulum_step(double *state, float action, double *reward) {
    const float raised = action < -2.0f ? -2.0f : action;
    const float torque = 2.0f < raised ? 2.0f : raised;
    const double angle = modulo(state[0] + ENVIRONMENT_PI, 2 * ENVIRONMENT_PI) - ENVIRONMENT_PI;
    const double cost = power_2(angle) + 0.1 * power_2(state[1]) + 0.001f * power_2_float(torque);
    const double speed = state[1] + (15.0 * state[3] + 3.0f * torque) * 0.05;
    state[1] = bounded(speed, -8.0, 8.0);
    state[0] = state[0] + state[1] * 0.05;
    turn(state[0], state + 3, state + 2);
    *reward = -cost;
    return 0;
}

FUNCTION void pendulum_observe(const double *state, float *row) {
    row[0] = (float)state[2];
    row[1] = (float)state[3];
    row[2] = (float)state[1];
}
