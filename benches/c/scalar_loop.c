/* 1,000 operations on one number, and their derivative. */
#include <math.h>

double scalar_loop(const double *x, double *gx) {
    double kept[250], y = *x, g = 1, total = 0;
    for (int k = 0; k < 250; k++) {
        kept[k] = y;
        y = sin(y) * *x + y / 2;
    }
    for (int k = 249; k >= 0; k--) {
        total += g * sin(kept[k]);
        g *= cos(kept[k]) * *x + 0.5;
    }
    *gx = total + g;
    return y;
}
