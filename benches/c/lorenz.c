/* The Lorenz attractor: the squares of its last place, and their gradient. */
#include <stdlib.h>
#include "rk4.h"

static void slope(int n, const double *y, const double *p, double *dy) {
    dy[0] = p[0] * (y[1] - y[0]);
    dy[1] = y[0] * (p[1] - y[2]) - y[1];
    dy[2] = y[0] * y[1] - p[2] * y[2];
}

static void slope_back(int n, const double *y, const double *p, const double *g, double *gy,
                       double *gp) {
    gy[0] += -p[0] * g[0] + (p[1] - y[2]) * g[1] + y[1] * g[2];
    gy[1] += p[0] * g[0] - g[1] + y[0] * g[2];
    gy[2] += -y[0] * g[1] - p[2] * g[2];
    gp[0] += (y[1] - y[0]) * g[0];
    gp[1] += y[0] * g[1];
    gp[2] -= y[2] * g[2];
}

double lorenz(long steps, const double *start, const double *p, double *gy, double *gp) {
    double scratch[8 * 3], *path = malloc((steps + 1) * 3 * sizeof(double)), value = 0;
    for (int i = 0; i < 3; i++) path[i] = start[i], gp[i] = 0;
    for (long t = 0; t < steps; t++) rk4(3, slope, path + 3 * t, p, 0.01, path + 3 * t + 3, scratch);
    for (int i = 0; i < 3; i++) {
        double last = path[3 * steps + i];
        value += last * last;
        gy[i] = 2 * last;
    }
    for (long t = steps - 1; t >= 0; t--)
        rk4_back(3, slope, slope_back, path + 3 * t, p, 0.01, gy, gp, scratch);
    free(path);
    return value;
}
