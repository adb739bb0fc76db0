/* Predators and prey: squared distances from observations, and the gradient of four parameters. */
#include <stdlib.h>
#include "rk4.h"

static void slope(int n, const double *y, const double *p, double *dy) {
    dy[0] = p[0] * y[0] - p[1] * y[0] * y[1];
    dy[1] = p[3] * y[0] * y[1] - p[2] * y[1];
}

static void slope_back(int n, const double *y, const double *p, const double *g, double *gy,
                       double *gp) {
    double both = y[0] * y[1];
    gy[0] += (p[0] - p[1] * y[1]) * g[0] + p[3] * y[1] * g[1];
    gy[1] += -p[1] * y[0] * g[0] + (p[3] * y[0] - p[2]) * g[1];
    gp[0] += y[0] * g[0];
    gp[1] -= both * g[0];
    gp[2] -= y[1] * g[1];
    gp[3] += both * g[1];
}

double ode_calibration(long steps, const double *p, const double *start, const double *seen,
                       double *gp) {
    double scratch[8 * 2], *path = malloc((steps + 1) * 2 * sizeof(double)), value = 0, g[2] = {0, 0};
    path[0] = start[0], path[1] = start[1];
    for (int i = 0; i < 4; i++) gp[i] = 0;
    for (long t = 0; t < steps; t++) {
        double *y = path + 2 * t;
        rk4(2, slope, y, p, 0.1, y + 2, scratch);
        for (int i = 0; i < 2; i++) value += (y[2 + i] - seen[2 * t + i]) * (y[2 + i] - seen[2 * t + i]);
    }
    for (long t = steps - 1; t >= 0; t--) {
        double *y = path + 2 * t;
        for (int i = 0; i < 2; i++) g[i] += 2 * (y[2 + i] - seen[2 * t + i]);
        rk4_back(2, slope, slope_back, y, p, 0.1, g, gp, scratch);
    }
    free(path);
    return value;
}
