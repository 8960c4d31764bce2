// The physics of the classic environments, one file each, in what OpenCL C, CUDA C++ and host C++ share: the
// native environments (`native/dynamics.hpp`) and the kernels of a device compile the same functions.
//
// An environment `name` has NAME_STATE doubles and NAME_DRAWS numbers of [0, 1) that begin an episode:
//     void name_start(double *state, const double *draws)
//     int name_step(double *state, ACTION action, double *reward), 1 where the episode has terminated
//     void name_observe(const double *state, float *row)
// Before them come FUNCTION, LONG, sine, cosine, turn and power_2 of doubles, sine_float, cosine_float and
// power_2_float. Arithmetic is Gymnasium's, without fused products and sums.

#define ENVIRONMENT_PI 3.14159265358979323846

FUNCTION double bounded(double x, double low, double high) {
    const double raised = x < low ? low : x;
    return high < raised ? high : raised;
}

// x % y of Python and NumPy, for y > 0.
FUNCTION double modulo(double x, double y) {
    if (x >= 0 && x < y)
        return x;
    const double rest = fmod(x, y);
    if (rest == 0)
        return 0;
    return rest < 0 ? rest + y : rest;
}
