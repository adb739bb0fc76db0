/* Formulas of numbers as in SGP4, and the gradient of seven elements. That of Kepler's equation comes
   from the equation, not from its iterations. */
#include <math.h>

static double moment(const double *el, double t, const double *seen, double *g) {
    const double j2 = 1.082616e-3, kappa = 0.0743669161;
    double n = el[0], e0 = el[1], drag = el[6], ci = cos(el[2]), si = sin(el[2]);
    double a = pow(kappa / n, 2.0 / 3), root = sqrt(1 - e0 * e0), root2 = root * root;
    double rate = 1.5 * j2 * n / (a * a * root2 * root2);
    double bend = 1.5 * ci * ci - 0.5, turn = 2.5 * ci * ci - 0.5;
    double mean = el[5] + (n + rate * root * bend) * t + 1.5 * n * drag * t * t;
    double perigee = el[4] + rate * turn * t, node = el[3] - rate * ci * t;
    double left = 1 - drag * t, at = a * left * left, e = e0 - 0.1 * drag * t;
    double angle = mean + e * sin(mean);
    for (int k = 0; k < 5; k++)
        angle -= (angle - e * sin(angle) - mean) / (1 - e * cos(angle));
    double ca = cos(angle), sa = sin(angle), q = sqrt(1 - e * e);
    double along = at * (ca - e), across = at * q * sa;
    double cp = cos(perigee), sp = sin(perigee), cn = cos(node), sn = sin(node);
    double u = along * cp - across * sp, v = along * sp + across * cp;
    double x = u * cn - v * ci * sn - seen[0], y = u * sn + v * ci * cn - seen[1];
    double z = v * si - seen[2];

    double gx = 2 * x, gy = 2 * y, gz = 2 * z;
    double gu = gx * cn + gy * sn, gv = (gy * cn - gx * sn) * ci + gz * si;
    double gci = (gy * cn - gx * sn) * v, gsi = gz * v;
    double gnode = -sn * (gx * u + gy * v * ci) + cn * (gy * u - gx * v * ci);
    double galong = gu * cp + gv * sp, gacross = gv * cp - gu * sp;
    double gperigee = -sp * (gu * along + gv * across) + cp * (gv * along - gu * across);
    double gat = galong * (ca - e) + gacross * q * sa;
    double ge = -galong * at - gacross * at * sa * e / q;
    double gangle = -sa * galong * at + ca * gacross * at * q, slope = 1 - e * ca;
    double gmean = gangle / slope;
    ge += gangle * sa / slope;
    double ga = gat * left * left, gdrag = -0.1 * t * ge - 2 * t * gat * a * left;
    double grate = t * (gperigee * turn - gnode * ci + gmean * root * bend);
    double groot = t * gmean * rate * bend - 4 * grate * rate / root;
    gci += t * rate * (5 * ci * gperigee - gnode + 3 * ci * root * gmean);
    ga -= 2 * grate * rate / a;
    gdrag += 1.5 * n * t * t * gmean;
    g[0] += gmean * (t + 1.5 * drag * t * t) + grate * rate / n - 2.0 / 3 * ga * a / n;
    g[1] += ge - groot * e0 / root;
    g[2] += ci * gsi - si * gci;
    g[3] += gnode;
    g[4] += gperigee;
    g[5] += gmean;
    g[6] += gdrag;
    return x * x + y * y + z * z;
}

double satellite(long n, const double *elements, const double *times, const double *seen, double *g) {
    double value = 0;
    for (int i = 0; i < 7; i++) g[i] = 0;
    for (long k = 0; k < n; k++) value += moment(elements, times[k], seen + 3 * k, g);
    return value;
}
