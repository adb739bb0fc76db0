/* Bundle adjustment: squared errors of reprojection, and the gradient of cameras and points. */
#include <math.h>
#include <string.h>

static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void cross(const double *a, const double *b, double *out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static double observation(const double *camera, const double *x, const double *seen, double *gcam,
                          double *gx) {
    double angle = sqrt(dot(camera, camera)), c = cos(angle), s = sin(angle);
    double v[3], turned[3], m[3], f[2], rho[2], gf[2], g[3], gv[3], part[3];
    for (int i = 0; i < 3; i++) v[i] = camera[i] / angle;
    cross(v, x, turned);
    double along = dot(x, v);
    for (int i = 0; i < 3; i++)
        m[i] = c * x[i] + s * turned[i] + along * (1 - c) * v[i] + camera[3 + i];
    for (int i = 0; i < 2; i++) f[i] = -m[i] / m[2];
    double n = f[0] * f[0] + f[1] * f[1], focal = camera[6];
    double r = 1 + camera[7] * n + camera[8] * n * n, value = 0, gr = 0;
    for (int i = 0; i < 2; i++) {
        double e = f[i] * r * focal - seen[i];
        value += e * e;
        rho[i] = 2 * e;
        gcam[6] += rho[i] * f[i] * r;
        gr += rho[i] * f[i] * focal;
    }
    gcam[7] += gr * n;
    gcam[8] += gr * n * n;
    double gn = gr * (camera[7] + 2 * camera[8] * n);
    for (int i = 0; i < 2; i++) gf[i] = rho[i] * r * focal + 2 * gn * f[i];
    for (int i = 0; i < 2; i++) g[i] = -gf[i] / m[2];
    g[2] = (gf[0] * m[0] + gf[1] * m[1]) / (m[2] * m[2]);
    double gvv = dot(g, v), galong = (1 - c) * gvv;
    double gc = dot(g, x) - along * gvv, gs = dot(g, turned);
    cross(g, v, part);
    for (int i = 0; i < 3; i++) {
        gcam[3 + i] += g[i];
        gx[i] += c * g[i] + s * part[i] + galong * v[i];
    }
    cross(x, g, part);
    for (int i = 0; i < 3; i++) gv[i] = s * part[i] + along * (1 - c) * g[i] + galong * x[i];
    double gangle = c * gs - s * gc - dot(gv, v) / angle;
    for (int i = 0; i < 3; i++) gcam[i] += gv[i] / angle + gangle * v[i];
    return value;
}

double ba(long n, long cameras, long points, const double *camera, const double *point,
          const long *which_camera, const long *which_point, const double *seen, double *gcamera,
          double *gpoint) {
    double value = 0;
    memset(gcamera, 0, 9 * cameras * sizeof(double));
    memset(gpoint, 0, 3 * points * sizeof(double));
    for (long k = 0; k < n; k++) {
        long a = 9 * which_camera[k], b = 3 * which_point[k];
        value += observation(camera + a, point + b, seen + 2 * k, gcamera + a, gpoint + b);
    }
    return value;
}
