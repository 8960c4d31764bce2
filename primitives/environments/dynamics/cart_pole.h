// CartPole-v1 of Gymnasium 1.x, and this project's ContinuousCartPole-v0
// (harness/environments/continuous_cartpole.py). State: place, speed, angle, angular speed.

#define CART_POLE_STATE 4
#define CART_POLE_DRAWS 4
#define CONTINUOUS_CART_POLE_STATE 4
#define CONTINUOUS_CART_POLE_DRAWS 4
#define CART_POLE_X_MAX 2.4
#define CART_POLE_THETA_MAX (12 * 2 * ENVIRONMENT_PI / 360)
#define CART_POLE_GRAVITY 9.8
#define CART_POLE_FORCE 10.0
#define CART_POLE_LENGTH 0.5
#define CART_POLE_POLE_MASS 0.1
#define CART_POLE_TOTAL_MASS (0.1 + 1.0)
#define CART_POLE_MASS_LENGTH (0.1 * 0.5)

FUNCTION double cart_pole_draw(double draw) { return -0.05 + (0.05 - -0.05) * draw; }

// Without a branch, which a random action would mislead.
FUNCTION double cart_pole_force(LONG action) { return CART_POLE_FORCE * (double)(2 * action - 1); }
FUNCTION double continuous_cart_pole_force(float action) {
    return CART_POLE_FORCE * bounded((double)action, -1.0, 1.0);
}

FUNCTION void cart_pole_accelerate(double force, double theta_dot, double sin_theta, double cos_theta,
                                   double *acceleration, double *angular) {
    const double drive =
        (force + CART_POLE_MASS_LENGTH * (theta_dot * theta_dot) * sin_theta) / CART_POLE_TOTAL_MASS;
    *angular = (CART_POLE_GRAVITY * sin_theta - cos_theta * drive) /
               (CART_POLE_LENGTH *
                (4.0 / 3.0 - CART_POLE_POLE_MASS * (cos_theta * cos_theta) / CART_POLE_TOTAL_MASS));
    *acceleration = drive - CART_POLE_MASS_LENGTH * *angular * cos_theta / CART_POLE_TOTAL_MASS;
}

// Its products are written from left to right.
FUNCTION void continuous_cart_pole_accelerate(double force, double theta_dot, double sin_theta,
                                              double cos_theta, double *acceleration, double *angular) {
    const double drive =
        (force + CART_POLE_MASS_LENGTH * theta_dot * theta_dot * sin_theta) / CART_POLE_TOTAL_MASS;
    *angular =
        (CART_POLE_GRAVITY * sin_theta - cos_theta * drive) /
        (CART_POLE_LENGTH * (4.0 / 3.0 - CART_POLE_POLE_MASS * cos_theta * cos_theta / CART_POLE_TOTAL_MASS));
    *acceleration = drive - CART_POLE_MASS_LENGTH * *angular * cos_theta / CART_POLE_TOTAL_MASS;
}

FUNCTION void cart_pole_move(double *x, double *x_dot, double *theta, double *theta_dot, double acceleration,
                             double angular) {
    const double tau = 0.02;
    *x = *x + tau * *x_dot;
    *x_dot = *x_dot + tau * acceleration;
    *theta = *theta + tau * *theta_dot;
    *theta_dot = *theta_dot + tau * angular;
}

FUNCTION int cart_pole_fell(double x, double theta) {
    return (x < -CART_POLE_X_MAX) | (x > CART_POLE_X_MAX) | (theta < -CART_POLE_THETA_MAX) |
           (theta > CART_POLE_THETA_MAX);
}

FUNCTION void cart_pole_start(double *state, const double *draws) {
    for (int k = 0; k < 4; ++k)
        state[k] = cart_pole_draw(draws[k]);
}

FUNCTION int cart_pole_step(double *state, LONG action, double *reward) {
    double sin_theta, cos_theta, acceleration, angular;
    turn(state[2], &sin_theta, &cos_theta);
    cart_pole_accelerate(cart_pole_force(action), state[3], sin_theta, cos_theta, &acceleration, &angular);
    cart_pole_move(state, state + 1, state + 2, state + 3, acceleration, angular);
    *reward = 1;
    return cart_pole_fell(state[0], state[2]);
}

FUNCTION void cart_pole_observe(const double *state, float *row) {
    for (int k = 0; k < 4; ++k)
        row[k] = (float)state[k];
}

FUNCTION void continuous_cart_pole_start(double *state, const double *draws) {
    cart_pole_start(state, draws);
}

// Its sine and cosine are Python's.
FUNCTION int continuous_cart_pole_step(double *state, float action, double *reward) {
    double acceleration, angular;
    const double force = continuous_cart_pole_force(action);
    continuous_cart_pole_accelerate(force, state[3], sin(state[2]), cos(state[2]), &acceleration, &angular);
    cart_pole_move(state, state + 1, state + 2, state + 3, acceleration, angular);
    *reward = 1;
    return cart_pole_fell(state[0], state[2]);
}

FUNCTION void continuous_cart_pole_observe(const double *state, float *row) { cart_pole_observe(state, row); }
