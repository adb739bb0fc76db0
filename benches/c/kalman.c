/* A Kalman filter of four states and two observations: its log-likelihood, and the gradient with
   respect to the dynamics and to the logarithms of both noises. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4, M = 2 };

/* c += s a b, where a has r rows and k columns, or is the transpose of one if `ta`. */
static inline void add_product(int r, int k, int q, double s, int ta, const double *a, int tb,
                               const double *b, double *c) {
    for (int i = 0; i < r; i++)
        for (int l = 0; l < k; l++) {
            double x = s * (ta ? a[l * r + i] : a[i * k + l]);
            for (int j = 0; j < q; j++) c[i * q + j] += x * (tb ? b[j * k + l] : b[l * q + j]);
        }
}

static inline void product(int r, int k, int q, int ta, const double *a, int tb, const double *b,
                           double *c) {
    memset(c, 0, r * q * sizeof(double));
    add_product(r, k, q, 1, ta, a, tb, b, c);
}

struct step {
    double x0[N], p0[N * N], p1[N * N], hp[M * N], inverse[M * M], gain[N * M], v[M];
};

static double forward(const double *a, const double *q, const double *r, const double *h,
                      const double *y, double *x, double *p, struct step *k) {
    double ap[N * N], s[M * M], x1[N], hph[M * M];
    memcpy(k->x0, x, sizeof k->x0);
    memcpy(k->p0, p, sizeof k->p0);
    product(N, N, 1, 0, a, 0, x, x1);
    product(N, N, N, 0, a, 0, p, ap);
    product(N, N, N, 0, ap, 1, a, k->p1);
    for (int i = 0; i < N; i++) k->p1[i * N + i] += q[i];
    memcpy(k->v, y, sizeof k->v);
    add_product(M, N, 1, -1, 0, h, 0, x1, k->v);
    product(M, N, N, 0, h, 0, k->p1, k->hp);
    product(M, N, M, 0, k->hp, 1, h, hph);
    memcpy(s, hph, sizeof s);
    for (int i = 0; i < M; i++) s[i * M + i] += r[i];
    double det = s[0] * s[3] - s[1] * s[2];
    double inverse[4] = {s[3] / det, -s[1] / det, -s[2] / det, s[0] / det}, ph[N * M];
    memcpy(k->inverse, inverse, sizeof inverse);
    product(N, N, M, 0, k->p1, 1, h, ph);
    product(N, M, M, 0, ph, 0, inverse, k->gain);
    memcpy(x, x1, sizeof x1);
    add_product(N, M, 1, 1, 0, k->gain, 0, k->v, x);
    memcpy(p, k->p1, sizeof k->p1);
    add_product(N, M, N, -1, 0, k->gain, 0, k->hp, p);
    double iv[M];
    product(M, M, 1, 0, inverse, 0, k->v, iv);
    return -0.5 * (k->v[0] * iv[0] + k->v[1] * iv[1] + log(det));
}

static void backward(const double *a, const double *h, const struct step *k, double *gx, double *gp,
                     double *ga, double *gq, double *gr) {
    double gv[M], ggain[N * M], gp1[N * N], ginv[M * M], gs[M * M], t[N * N], u[N * N], kh[N * N];
    /* x2 = x1 + K v, p2 = p1 - K (H p1) */
    product(M, N, 1, 1, k->gain, 0, gx, gv);
    product(N, 1, M, 0, gx, 0, k->v, ggain);
    add_product(N, N, M, -1, 0, gp, 1, k->hp, ggain);
    memcpy(gp1, gp, sizeof gp1);
    product(N, M, N, 0, k->gain, 0, h, kh);
    add_product(N, N, N, -1, 1, kh, 0, gp, gp1);
    /* the likelihood */
    add_product(M, M, 1, -0.5, 0, k->inverse, 0, k->v, gv);
    add_product(M, M, 1, -0.5, 1, k->inverse, 0, k->v, gv);
    product(M, 1, M, 0, k->v, 0, k->v, ginv);
    for (int i = 0; i < M * M; i++) ginv[i] *= -0.5;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) gs[i * M + j] = -0.5 * k->inverse[j * M + i];
    /* K = p1 H' S^-1 */
    product(N, M, M, 0, ggain, 1, k->inverse, t);
    add_product(N, M, N, 1, 0, t, 0, h, gp1);
    product(N, N, M, 0, k->p1, 1, h, t);
    add_product(M, N, M, 1, 1, t, 0, ggain, ginv);
    /* S^-1, S = H p1 H' + R */
    product(M, M, M, 1, k->inverse, 0, ginv, t);
    add_product(M, M, M, -1, 0, t, 1, k->inverse, gs);
    product(N, M, M, 1, h, 0, gs, t);
    add_product(N, M, N, 1, 0, t, 0, h, gp1);
    for (int i = 0; i < M; i++) gr[i] += gs[i * M + i];
    /* v = y - H x1, and gx becomes the cotangent of x1 */
    add_product(N, M, 1, -1, 1, h, 0, gv, gx);
    /* p1 = A p A' + Q, x1 = A x */
    for (int i = 0; i < N; i++) gq[i] += gp1[i * N + i];
    product(N, N, N, 0, gp1, 0, a, t);
    add_product(N, N, N, 1, 0, t, 1, k->p0, ga);
    product(N, N, N, 1, gp1, 0, a, u);
    add_product(N, N, N, 1, 0, u, 0, k->p0, ga);
    product(N, N, N, 1, a, 0, t, gp);
    add_product(N, 1, N, 1, 0, gx, 0, k->x0, ga);
    product(N, N, 1, 1, a, 0, gx, t);
    memcpy(gx, t, N * sizeof(double));
}

double kalman(long steps, const double *a, const double *log_q, const double *log_r,
              const double *h, const double *seen, double *ga, double *gq, double *gr) {
    struct step *kept = malloc(steps * sizeof *kept);
    double q[N], r[M], x[N] = {0}, p[N * N] = {0}, gx[N] = {0}, gp[N * N] = {0};
    double value = -steps * log(2 * M_PI);
    for (int i = 0; i < N; i++) q[i] = exp(log_q[i]), p[i * N + i] = 1, gq[i] = 0;
    for (int i = 0; i < M; i++) r[i] = exp(log_r[i]), gr[i] = 0;
    memset(ga, 0, N * N * sizeof(double));
    for (long t = 0; t < steps; t++) value += forward(a, q, r, h, seen + M * t, x, p, kept + t);
    for (long t = steps - 1; t >= 0; t--) backward(a, h, kept + t, gx, gp, ga, gq, gr);
    for (int i = 0; i < N; i++) gq[i] *= q[i];
    for (int i = 0; i < M; i++) gr[i] *= r[i];
    free(kept);
    return value;
}
