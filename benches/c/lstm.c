/* The LSTM of ADBench: layers with elementwise weights, and the gradient of its loss. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* What one layer keeps of one step: eight rows of `b` numbers. */
enum { X, HIDDEN, MEMORY, FORGET, GATE, OUT, CHANGE, BENT, KEPT };

double lstm(long layers, long b, long length, const double *mains, const double *extra,
            const double *start, const double *text, double *gmain, double *gextra) {
    long steps = length - 1;
    double *kept = malloc((steps * layers * KEPT + 3 * steps + 4 * layers + 1) * b * sizeof(double));
    double *found = kept + steps * layers * KEPT * b; /* the last layer's output, and the softmax */
    double *hidden = found + 3 * steps * b, *memory = hidden + layers * b;
    double *gh = memory + layers * b, *gc = gh + layers * b, *gx = gc + layers * b;
    double total = 0, scale = -1.0 / (steps * b);
    for (long l = 0; l < layers; l++) {
        memcpy(hidden + l * b, start + 2 * l * b, b * sizeof(double));
        memcpy(memory + l * b, start + (2 * l + 1) * b, b * sizeof(double));
    }
    for (long t = 0; t < steps; t++) {
        double *last = found + 3 * t * b, *soft = last + b, sum = 2, wanted = 0;
        for (long j = 0; j < b; j++) last[j] = text[t * b + j] * extra[j];
        for (long l = 0; l < layers; l++) {
            const double *w = mains + 8 * l * b, *bias = w + 4 * b;
            double *k = kept + (t * layers + l) * KEPT * b;
            for (long j = 0; j < b; j++) {
                double x = last[j], h = hidden[l * b + j], c = memory[l * b + j];
                double forget = sigmoid(x * w[j] + bias[j]), gate = sigmoid(h * w[b + j] + bias[b + j]);
                double out = sigmoid(x * w[2 * b + j] + bias[2 * b + j]);
                double change = tanh(h * w[3 * b + j] + bias[3 * b + j]);
                double next = c * forget + gate * change, bent = tanh(next);
                double all[KEPT] = {x, h, c, forget, gate, out, change, bent};
                for (int r = 0; r < KEPT; r++) k[r * b + j] = all[r];
                memory[l * b + j] = next;
                hidden[l * b + j] = last[j] = out * bent;
            }
        }
        for (long j = 0; j < b; j++) {
            double y = last[j] * extra[b + j] + extra[2 * b + j];
            soft[j] = exp(y);
            sum += soft[j];
            wanted += text[(t + 1) * b + j];
            total += text[(t + 1) * b + j] * y;
        }
        total -= wanted * log(sum);
        for (long j = 0; j < b; j++) soft[j] *= wanted / sum;
    }
    memset(gmain, 0, 8 * layers * b * sizeof(double));
    memset(gextra, 0, 3 * b * sizeof(double));
    memset(gh, 0, 2 * layers * b * sizeof(double));
    for (long t = steps - 1; t >= 0; t--) {
        const double *last = found + 3 * t * b, *soft = last + b;
        for (long j = 0; j < b; j++) {
            double gy = scale * (text[(t + 1) * b + j] - soft[j]);
            gextra[b + j] += gy * last[j];
            gextra[2 * b + j] += gy;
            gx[j] = gy * extra[b + j];
        }
        for (long l = layers - 1; l >= 0; l--) {
            const double *w = mains + 8 * l * b, *k = kept + (t * layers + l) * KEPT * b;
            double *gw = gmain + 8 * l * b, *gbias = gw + 4 * b;
            for (long j = 0; j < b; j++) {
                double out = k[OUT * b + j], bent = k[BENT * b + j], gate = k[GATE * b + j];
                double forget = k[FORGET * b + j], change = k[CHANGE * b + j];
                double x = k[X * b + j], h = k[HIDDEN * b + j];
                double ghidden = gx[j] + gh[l * b + j];
                double gnext = gc[l * b + j] + ghidden * out * (1 - bent * bent);
                double z[4] = {gnext * k[MEMORY * b + j] * forget * (1 - forget),
                               gnext * change * gate * (1 - gate), ghidden * bent * out * (1 - out),
                               gnext * gate * (1 - change * change)};
                gc[l * b + j] = gnext * forget;
                for (int g = 0; g < 4; g++) {
                    gw[g * b + j] += z[g] * (g % 2 ? h : x);
                    gbias[g * b + j] += z[g];
                }
                gx[j] = z[0] * w[j] + z[2] * w[2 * b + j];
                gh[l * b + j] = z[1] * w[b + j] + z[3] * w[3 * b + j];
            }
        }
        for (long j = 0; j < b; j++) gextra[j] += gx[j] * text[t * b + j];
    }
    free(kept);
    return total * scale;
}
