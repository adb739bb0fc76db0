/* The log-likelihood of a mixture of Gaussians, from ADBench, and its gradient. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double gmm(long n, long d, long k, const double *alphas, const double *means, const double *icf,
           const double *x, double *galphas, double *gmeans, double *gicf) {
    long size = d * (d + 1) / 2;
    double *scratch = malloc((2 * k * d + 2 * k + k * d + d) * sizeof(double));
    double *centred = scratch, *scaled = centred + k * d, *inner = scaled + k * d, *logs = inner + k;
    double *diagonal = logs + k, *gc = diagonal + k * d;
    double value = -0.5 * n * d * log(2 * M_PI), most = -INFINITY, sum = 0;
    memset(gmeans, 0, k * d * sizeof(double));
    memset(galphas, 0, k * sizeof(double));
    for (long c = 0; c < k; c++) {
        logs[c] = 0;
        most = fmax(most, alphas[c]);
        for (long j = 0; j < size; j++) {
            double q = icf[c * size + j];
            if (j < d) {
                double e = diagonal[c * d + j] = exp(q);
                logs[c] += q;
                value += q - 0.5 * e * e;
                gicf[c * size + j] = 1 - e * e;
            } else {
                value -= 0.5 * q * q;
                gicf[c * size + j] = -q;
            }
        }
    }
    for (long i = 0; i < n; i++) {
        double top = -INFINITY, total = 0;
        for (long c = 0; c < k; c++) {
            double *z = centred + c * d, *y = scaled + c * d, square = 0;
            const double *l = icf + c * size + d;
            for (long j = 0; j < d; j++) {
                z[j] = x[i * d + j] - means[c * d + j];
                y[j] = diagonal[c * d + j] * z[j];
            }
            for (long j = 0; j < d; j++)
                for (long r = j + 1; r < d; r++) y[r] += *l++ * z[j];
            for (long j = 0; j < d; j++) square += y[j] * y[j];
            inner[c] = alphas[c] + logs[c] - 0.5 * square;
            top = fmax(top, inner[c]);
        }
        for (long c = 0; c < k; c++) total += inner[c] = exp(inner[c] - top);
        value += top + log(total);
        for (long c = 0; c < k; c++) {
            double p = inner[c] / total, *z = centred + c * d, *y = scaled + c * d;
            double *gl = gicf + c * size + d;
            const double *l = icf + c * size + d;
            galphas[c] += p;
            for (long j = 0; j < d; j++) {
                y[j] *= -p;
                gicf[c * size + j] += p + y[j] * diagonal[c * d + j] * z[j];
                gc[j] = diagonal[c * d + j] * y[j];
            }
            for (long j = 0; j < d; j++)
                for (long r = j + 1; r < d; r++) {
                    *gl++ += y[r] * z[j];
                    gc[j] += *l++ * y[r];
                }
            for (long j = 0; j < d; j++) gmeans[c * d + j] -= gc[j];
        }
    }
    for (long c = 0; c < k; c++) sum += exp(alphas[c] - most);
    value -= n * (most + log(sum));
    for (long c = 0; c < k; c++) galphas[c] -= n * exp(alphas[c] - most) / sum;
    free(scratch);
    return value;
}
