/* Bodies that attract each other: squares of their last places and speeds, and the gradient with
   respect to the first ones and to the masses. */
#include <math.h>
#include <stdlib.h>
#include "rk4.h"

static void slope(int n, const double *y, const double *masses, double *dy) {
    int bodies = n / 6;
    const double *v = y + 3 * bodies;
    double *dv = dy + 3 * bodies;
    for (int i = 0; i < 3 * bodies; i++) dy[i] = v[i];
    for (int i = 0; i < bodies; i++) {
        double pull[3] = {0, 0, 0};
        for (int j = 0; j < bodies; j++) {
            double d[3], square = 0.1;
            for (int c = 0; c < 3; c++) d[c] = y[3 * j + c] - y[3 * i + c], square += d[c] * d[c];
            double weight = masses[j] / (square * sqrt(square));
            for (int c = 0; c < 3; c++) pull[c] += weight * d[c];
        }
        for (int c = 0; c < 3; c++) dv[3 * i + c] = pull[c];
    }
}

static void slope_back(int n, const double *y, const double *masses, const double *g, double *gy,
                       double *gm) {
    int bodies = n / 6;
    const double *gv = g + 3 * bodies;
    for (int i = 0; i < 3 * bodies; i++) gy[3 * bodies + i] += g[i];
    for (int i = 0; i < bodies; i++) {
        const double *a = gv + 3 * i;
        double own[3] = {0, 0, 0};
        for (int j = 0; j < bodies; j++) {
            double d[3], square = 0.1, along = 0;
            for (int c = 0; c < 3; c++) {
                d[c] = y[3 * j + c] - y[3 * i + c];
                square += d[c] * d[c];
                along += d[c] * a[c];
            }
            double cube = 1 / (square * sqrt(square));
            gm[j] += cube * along;
            for (int c = 0; c < 3; c++) {
                double gd = masses[j] * cube * (a[c] - 3 * along / square * d[c]);
                gy[3 * j + c] += gd;
                own[c] += gd;
            }
        }
        for (int c = 0; c < 3; c++) gy[3 * i + c] -= own[c];
    }
}

double n_body(long bodies, long steps, const double *start, const double *masses, double *g,
              double *gm) {
    int n = 6 * bodies;
    double *path = malloc((steps + 9) * n * sizeof(double)), *scratch = path + (steps + 1) * n;
    double value = 0;
    for (int i = 0; i < n; i++) path[i] = start[i];
    for (long t = 0; t < steps; t++) rk4(n, slope, path + n * t, masses, 0.01, path + n * (t + 1), scratch);
    const double *last = path + n * steps;
    for (int i = 0; i < bodies; i++) {
        gm[i] = 0;
        for (int c = 0; c < 3; c++) {
            double q = last[3 * i + c], v = last[3 * (bodies + i) + c];
            value += q * q + masses[i] * v * v;
            g[3 * i + c] = 2 * q;
            g[3 * (bodies + i) + c] = 2 * masses[i] * v;
            gm[i] += v * v;
        }
    }
    for (long t = steps - 1; t >= 0; t--)
        rk4_back(n, slope, slope_back, path + n * t, masses, 0.01, g, gm, scratch);
    free(path);
    return value;
}
