/* The classical Runge-Kutta method on n numbers, and its reverse: shared by the trajectories.

   A slope writes dy/dt; its reverse adds to the cotangents of y and of the parameters. Both get the
   parameters as they are. The scratch memory holds 8 n numbers. */
#ifndef RK4_H
#define RK4_H

typedef void slope_t(int n, const double *y, const double *p, double *dy);
typedef void slope_back_t(int n, const double *y, const double *p, const double *ddy, double *gy,
                          double *gp);

static inline void rk4_stage(int n, const double *y, double h, const double *k, double *out) {
    for (int i = 0; i < n; i++) out[i] = y[i] + h * k[i];
}

static inline void rk4(int n, slope_t f, const double *y, const double *p, double h, double *next,
                       double *scratch) {
    double *k1 = scratch, *k2 = k1 + n, *k3 = k2 + n, *k4 = k3 + n, *s = k4 + n;
    f(n, y, p, k1);
    rk4_stage(n, y, h / 2, k1, s);
    f(n, s, p, k2);
    rk4_stage(n, y, h / 2, k2, s);
    f(n, s, p, k3);
    rk4_stage(n, y, h, k3, s);
    f(n, s, p, k4);
    for (int i = 0; i < n; i++) next[i] = y[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
}

/* g: the cotangent of the next state, which becomes that of y. */
static inline void rk4_back(int n, slope_t f, slope_back_t back, const double *y, const double *p,
                            double h, double *g, double *gp, double *scratch) {
    double *k = scratch, *s2 = k + n, *s3 = s2 + n, *s4 = s3 + n;
    double *gk = s4 + n, *gs = gk + n, *gy = gs + n;
    f(n, y, p, k);
    rk4_stage(n, y, h / 2, k, s2);
    f(n, s2, p, k);
    rk4_stage(n, y, h / 2, k, s3);
    f(n, s3, p, k);
    rk4_stage(n, y, h, k, s4);
    const double *at[4] = {y, s2, s3, s4};
    const double part[4] = {h / 6, h / 3, h / 3, h / 6}, from[4] = {h / 2, h / 2, h, 0};
    for (int i = 0; i < n; i++) gy[i] = g[i], gs[i] = 0;
    for (int stage = 3; stage >= 0; stage--) {
        for (int i = 0; i < n; i++) gk[i] = part[stage] * g[i] + from[stage] * gs[i], gs[i] = 0;
        back(n, at[stage], p, gk, gs, gp);
        for (int i = 0; i < n; i++) gy[i] += gs[i];
    }
    for (int i = 0; i < n; i++) g[i] = gy[i];
}

#endif
