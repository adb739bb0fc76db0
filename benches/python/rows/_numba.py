"""Gradients by hand in numba: the functions of `benches/c`, as users of numba write them."""

import math
from typing import Any

import numpy as np
from numba import njit

from cotan._src.bench.libraries import Built, NotWrittenError, as_is
from rows._row import Row


@njit
def scalar_loop(x):
    kept, y = np.empty(250), x
    for k in range(250):
        kept[k] = y
        y = math.sin(y) * x + y / 2
    g, total = 1.0, 0.0
    for k in range(249, -1, -1):
        total += g * math.sin(kept[k])
        g *= math.cos(kept[k]) * x + 0.5
    return y, (total + g,)


def rk4_of(slope, slope_back):
    """Give a step of the classical method, and its reverse, for one right side."""

    @njit
    def forward(y, p, h):
        k1 = slope(y, p)
        k2 = slope(y + h / 2 * k1, p)
        k3 = slope(y + h / 2 * k2, p)
        k4 = slope(y + h * k3, p)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    @njit
    def backward(y, p, h, g, gp):
        s2 = y + h / 2 * slope(y, p)
        s3 = y + h / 2 * slope(s2, p)
        s4 = y + h * slope(s3, p)
        g4 = slope_back(s4, p, h / 6 * g, gp)
        g3 = slope_back(s3, p, h / 3 * g + h * g4, gp)
        g2 = slope_back(s2, p, h / 3 * g + h / 2 * g3, gp)
        return g + g4 + g3 + g2 + slope_back(y, p, h / 6 * g + h / 2 * g2, gp)

    return forward, backward


@njit
def lorenz_slope(y, p):
    return np.array([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])


@njit
def lorenz_back(y, p, g, gp):
    gp[0] += (y[1] - y[0]) * g[0]
    gp[1] += y[0] * g[1]
    gp[2] -= y[2] * g[2]
    return np.array(
        [
            -p[0] * g[0] + (p[1] - y[2]) * g[1] + y[1] * g[2],
            p[0] * g[0] - g[1] + y[0] * g[2],
            -y[0] * g[1] - p[2] * g[2],
        ]
    )


lorenz_forward, lorenz_backward = rk4_of(lorenz_slope, lorenz_back)


@njit
def lorenz(start, p, times):
    path = np.empty((len(times) + 1, 3))
    path[0] = start
    for t in range(len(times)):
        path[t + 1] = lorenz_forward(path[t], p, 0.01)
    g, gp = 2 * path[-1], np.zeros(3)
    for t in range(len(times) - 1, -1, -1):
        g = lorenz_backward(path[t], p, 0.01, g, gp)
    return np.sum(path[-1] ** 2), (g, gp)


@njit
def predators_slope(y, p):
    both = y[0] * y[1]
    return np.array([p[0] * y[0] - p[1] * both, p[3] * both - p[2] * y[1]])


@njit
def predators_back(y, p, g, gp):
    both = y[0] * y[1]
    gp[0] += y[0] * g[0]
    gp[1] -= both * g[0]
    gp[2] -= y[1] * g[1]
    gp[3] += both * g[1]
    return np.array(
        [
            (p[0] - p[1] * y[1]) * g[0] + p[3] * y[1] * g[1],
            -p[1] * y[0] * g[0] + (p[3] * y[0] - p[2]) * g[1],
        ]
    )


predators_forward, predators_backward = rk4_of(predators_slope, predators_back)


@njit
def ode_calibration(p, start, seen):
    path = np.empty((len(seen) + 1, 2))
    path[0] = start
    for t in range(len(seen)):
        path[t + 1] = predators_forward(path[t], p, 0.1)
    g, gp = np.zeros(2), np.zeros(4)
    for t in range(len(seen) - 1, -1, -1):
        g = predators_backward(path[t], p, 0.1, g + 2 * (path[t + 1] - seen[t]), gp)
    return np.sum((path[1:] - seen) ** 2), (gp,)


@njit
def bodies_slope(y, m):
    out = np.empty_like(y)
    for i in range(len(m)):
        x, v, w = 0.0, 0.0, 0.0
        for j in range(len(m)):
            a = y[0, j, 0] - y[0, i, 0]
            b = y[0, j, 1] - y[0, i, 1]
            c = y[0, j, 2] - y[0, i, 2]
            square = a * a + b * b + c * c + 0.1
            weight = m[j] / (square * math.sqrt(square))
            x += weight * a
            v += weight * b
            w += weight * c
        out[0, i] = y[1, i]
        out[1, i, 0], out[1, i, 1], out[1, i, 2] = x, v, w
    return out


@njit
def bodies_back(y, m, g, gm):
    out = np.zeros_like(y)
    out[1] = g[0]
    for i in range(len(m)):
        for j in range(len(m)):
            a = y[0, j, 0] - y[0, i, 0]
            b = y[0, j, 1] - y[0, i, 1]
            c = y[0, j, 2] - y[0, i, 2]
            square = a * a + b * b + c * c + 0.1
            along = a * g[1, i, 0] + b * g[1, i, 1] + c * g[1, i, 2]
            cube = 1 / (square * math.sqrt(square))
            gm[j] += cube * along
            scale, pull = m[j] * cube, 3 * along / square
            ga = scale * (g[1, i, 0] - pull * a)
            gb = scale * (g[1, i, 1] - pull * b)
            gc = scale * (g[1, i, 2] - pull * c)
            out[0, j, 0] += ga
            out[0, j, 1] += gb
            out[0, j, 2] += gc
            out[0, i, 0] -= ga
            out[0, i, 1] -= gb
            out[0, i, 2] -= gc
    return out


bodies_forward, bodies_backward = rk4_of(bodies_slope, bodies_back)


@njit
def n_body(start, m, times):
    path = np.empty((len(times) + 1, *start.shape))
    path[0] = start
    for t in range(len(times)):
        path[t + 1] = bodies_forward(path[t], m, 0.01)
    last, g = path[-1], 2 * path[-1]
    gm = np.zeros(len(m))
    value = np.sum(last[0] ** 2)
    for i in range(len(m)):
        gm[i] = np.sum(last[1, i] ** 2)
        value += m[i] * gm[i]
        g[1, i] *= m[i]
    for t in range(len(times) - 1, -1, -1):
        g = bodies_backward(path[t], m, 0.01, g, gm)
    return value, (g, gm)


@njit
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@njit
def lstm(main, extra, start, text):
    layers, b, steps = len(main), main.shape[3], len(text) - 1
    kept = np.empty((steps, layers, 8, b))
    last, soft = np.empty((steps, b)), np.empty((steps, b))
    state, total = start.copy(), 0.0
    for t in range(steps):
        x = text[t] * extra[0]
        for k in range(layers):
            w, bias = main[k, 0], main[k, 1]
            hidden, memory = state[k, 0].copy(), state[k, 1].copy()
            forget, gate = sigmoid(x * w[0] + bias[0]), sigmoid(hidden * w[1] + bias[1])
            out, change = sigmoid(x * w[2] + bias[2]), np.tanh(hidden * w[3] + bias[3])
            after = memory * forget + gate * change
            bent = np.tanh(after)
            kept[t, k, 0], kept[t, k, 1], kept[t, k, 2], kept[t, k, 3] = x, hidden, memory, forget
            kept[t, k, 4], kept[t, k, 5], kept[t, k, 6], kept[t, k, 7] = gate, out, change, bent
            x = out * bent
            state[k, 0], state[k, 1] = x, after
        last[t] = x
        y = x * extra[1] + extra[2]
        e = np.exp(y)
        many = np.sum(e) + 2
        total += np.sum(text[t + 1] * (y - math.log(many)))
        soft[t] = e * (np.sum(text[t + 1]) / many)
    scale = -1.0 / (steps * b)
    gmain, gextra = np.zeros_like(main), np.zeros_like(extra)
    gh, gc = np.zeros((layers, b)), np.zeros((layers, b))
    for t in range(steps - 1, -1, -1):
        gy = scale * (text[t + 1] - soft[t])
        gextra[1] += gy * last[t]
        gextra[2] += gy
        gx = gy * extra[1]
        for k in range(layers - 1, -1, -1):
            w = main[k, 0]
            x, hidden, memory, forget = kept[t, k, 0], kept[t, k, 1], kept[t, k, 2], kept[t, k, 3]
            gate, out, change, bent = kept[t, k, 4], kept[t, k, 5], kept[t, k, 6], kept[t, k, 7]
            ghidden = gx + gh[k]
            gafter = gc[k] + ghidden * out * (1 - bent * bent)
            zf = gafter * memory * forget * (1 - forget)
            zg = gafter * change * gate * (1 - gate)
            zo = ghidden * bent * out * (1 - out)
            zc = gafter * gate * (1 - change * change)
            gc[k] = gafter * forget
            gmain[k, 0, 0] += zf * x
            gmain[k, 0, 1] += zg * hidden
            gmain[k, 0, 2] += zo * x
            gmain[k, 0, 3] += zc * hidden
            gmain[k, 1, 0] += zf
            gmain[k, 1, 1] += zg
            gmain[k, 1, 2] += zo
            gmain[k, 1, 3] += zc
            gx = zf * w[0] + zo * w[2]
            gh[k] = zg * w[1] + zc * w[3]
        gextra[0] += gx * text[t]
    return total * scale, (gmain, gextra)


@njit
def ba(cameras, points, which_camera, which_point, seen):
    gcameras, gpoints, value = np.zeros_like(cameras), np.zeros_like(points), 0.0
    g, gv, v, turned, m = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for k in range(len(seen)):
        cam, x = cameras[which_camera[k]], points[which_point[k]]
        gcam, gx = gcameras[which_camera[k]], gpoints[which_point[k]]
        angle = math.sqrt(cam[0] ** 2 + cam[1] ** 2 + cam[2] ** 2)
        c, s, along = math.cos(angle), math.sin(angle), 0.0
        for i in range(3):
            v[i] = cam[i] / angle
            along += v[i] * x[i]
        for i in range(3):
            a, b = (i + 1) % 3, (i + 2) % 3
            turned[i] = v[a] * x[b] - v[b] * x[a]
            m[i] = c * x[i] + s * turned[i] + along * (1 - c) * v[i] + cam[3 + i]
        f0, f1, focal = -m[0] / m[2], -m[1] / m[2], cam[6]
        n = f0 * f0 + f1 * f1
        r = 1 + cam[7] * n + cam[8] * n * n
        e0, e1 = f0 * r * focal - seen[k, 0], f1 * r * focal - seen[k, 1]
        value += e0 * e0 + e1 * e1
        both = 2 * (e0 * f0 + e1 * f1)
        gcam[6] += both * r
        gr = both * focal
        gcam[7] += gr * n
        gcam[8] += gr * n * n
        gn = gr * (cam[7] + 2 * cam[8] * n)
        gf0 = 2 * e0 * r * focal + 2 * gn * f0
        gf1 = 2 * e1 * r * focal + 2 * gn * f1
        g[0], g[1] = -gf0 / m[2], -gf1 / m[2]
        g[2] = (gf0 * m[0] + gf1 * m[1]) / (m[2] * m[2])
        gvv = g[0] * v[0] + g[1] * v[1] + g[2] * v[2]
        galong = (1 - c) * gvv
        gc = g[0] * x[0] + g[1] * x[1] + g[2] * x[2] - along * gvv
        gs, gvw = g[0] * turned[0] + g[1] * turned[1] + g[2] * turned[2], 0.0
        for i in range(3):
            a, b = (i + 1) % 3, (i + 2) % 3
            gcam[3 + i] += g[i]
            gx[i] += c * g[i] + s * (g[a] * v[b] - g[b] * v[a]) + galong * v[i]
            gv[i] = s * (x[a] * g[b] - x[b] * g[a]) + along * (1 - c) * g[i] + galong * x[i]
            gvw += gv[i] * v[i]
        gangle = c * gs - s * gc - gvw / angle
        for i in range(3):
            gcam[i] += gv[i] / angle + gangle * v[i]
    return value, (gcameras, gpoints)


@njit
def gmm(alphas, means, icf, x):
    (n, d), k = x.shape, len(alphas)
    diagonals = np.exp(icf[:, :d])
    logs, scaled, inner = np.empty(k), np.empty((k, d)), np.empty(k)
    value = -0.5 * n * d * math.log(2 * math.pi)
    galphas, gmeans, gicf, gc = np.zeros(k), np.zeros_like(means), -icf, np.empty(d)
    for c in range(k):
        logs[c] = np.sum(icf[c, :d])
        value += logs[c] - 0.5 * np.sum(diagonals[c] ** 2) - 0.5 * np.sum(icf[c, d:] ** 2)
        gicf[c, :d] = 1 - diagonals[c] ** 2
    for i in range(n):
        for c in range(k):
            y, at = scaled[c], d
            for j in range(d):
                y[j] = diagonals[c, j] * (x[i, j] - means[c, j])
            for j in range(d):
                z = x[i, j] - means[c, j]
                for r in range(j + 1, d):
                    y[r] += icf[c, at] * z
                    at += 1
            inner[c] = alphas[c] + logs[c] - 0.5 * np.sum(y * y)
        top = np.max(inner)
        e = np.exp(inner - top)
        total = np.sum(e)
        value += top + math.log(total)
        for c in range(k):
            p, y, at = e[c] / total, scaled[c], d
            galphas[c] += p
            for j in range(d):
                y[j] *= -p
                gicf[c, j] += p + y[j] * diagonals[c, j] * (x[i, j] - means[c, j])
                gc[j] = diagonals[c, j] * y[j]
            for j in range(d):
                z = x[i, j] - means[c, j]
                for r in range(j + 1, d):
                    gicf[c, at] += y[r] * z
                    gc[j] += icf[c, at] * y[r]
                    at += 1
                gmeans[c, j] -= gc[j]
    most = np.max(alphas)
    e = np.exp(alphas - most)
    value -= n * (most + math.log(np.sum(e)))
    return value, (galphas - n * e / np.sum(e), gmeans, gicf)


@njit
def kalman(a, log_q, log_r, h, seen):
    steps, n, m = len(seen), len(a), len(h)
    q, r = np.diag(np.exp(log_q)), np.diag(np.exp(log_r))
    xs, ps, p1s = np.empty((steps, n)), np.empty((steps, n, n)), np.empty((steps, n, n))
    inverses, gains, vs = np.empty((steps, m, m)), np.empty((steps, n, m)), np.empty((steps, m))
    x, p, value = np.zeros(n), np.eye(n), -steps * math.log(2 * math.pi)
    ht = np.ascontiguousarray(h.T)
    at = np.ascontiguousarray(a.T)
    for t in range(steps):
        xs[t], ps[t] = x, p
        x1 = a @ x
        p1 = a @ p @ at + q
        v = seen[t] - h @ x1
        s = h @ p1 @ ht + r
        inverse = np.linalg.inv(s)
        gain = p1 @ ht @ inverse
        p1s[t], inverses[t], gains[t], vs[t] = p1, inverse, gain, v
        value -= 0.5 * (v @ inverse @ v + math.log(np.linalg.det(s)))
        x = x1 + gain @ v
        p = p1 - gain @ h @ p1
    ga, gq, gr, gx, gp = np.zeros_like(a), np.zeros(n), np.zeros(m), np.zeros(n), np.zeros((n, n))
    for t in range(steps - 1, -1, -1):
        p1, inverse, gain, v = p1s[t], inverses[t], gains[t], vs[t]
        it = np.ascontiguousarray(inverse.T)
        gt, pt = np.ascontiguousarray(gain.T), np.ascontiguousarray(p1.T)
        gv = gt @ gx - 0.5 * ((inverse + it) @ v)
        ggain = np.outer(gx, v) - gp @ pt @ ht
        ginverse = -0.5 * np.outer(v, v) + h @ pt @ ggain
        gs = -0.5 * it - it @ ginverse @ it
        gp1 = gp - ht @ (gt @ gp) + ggain @ it @ h + ht @ gs @ h
        gx1 = gx - ht @ gv
        gq += np.diag(gp1)
        gr += np.diag(gs)
        gpa = gp1 @ a
        ga += gpa @ np.ascontiguousarray(ps[t].T) + np.ascontiguousarray(gp1.T) @ a @ ps[t]
        ga += np.outer(gx1, xs[t])
        gp = at @ gpa
        gx = at @ gx1
    return value, (ga, gq * np.exp(log_q), gr * np.exp(log_r))


@njit
def satellite(elements, times, seen):
    g, value = np.zeros(7), 0.0
    n, e0, inclination, node0, perigee0, anomaly, drag = elements
    ci, si, j2 = math.cos(inclination), math.sin(inclination), 1.082616e-3
    a, root = (0.0743669161 / n) ** (2 / 3), math.sqrt(1 - e0 * e0)
    rate = 1.5 * j2 * n / (a * a * root**4)
    bend, turn = 1.5 * ci * ci - 0.5, 2.5 * ci * ci - 0.5
    for k in range(len(times)):
        t = times[k]
        mean = anomaly + (n + rate * root * bend) * t + 1.5 * n * drag * t * t
        perigee, node = perigee0 + rate * turn * t, node0 - rate * ci * t
        left, e = 1 - drag * t, e0 - 0.1 * drag * t
        at = a * left * left
        angle = mean + e * math.sin(mean)
        for _ in range(5):
            angle -= (angle - e * math.sin(angle) - mean) / (1 - e * math.cos(angle))
        ca, sa, q = math.cos(angle), math.sin(angle), math.sqrt(1 - e * e)
        along, across = at * (ca - e), at * q * sa
        cp, sp, cn, sn = math.cos(perigee), math.sin(perigee), math.cos(node), math.sin(node)
        u, v = along * cp - across * sp, along * sp + across * cp
        x, y = u * cn - v * ci * sn - seen[k, 0], u * sn + v * ci * cn - seen[k, 1]
        z = v * si - seen[k, 2]
        value += x * x + y * y + z * z
        gx, gy, gz = 2 * x, 2 * y, 2 * z
        gu, gv = gx * cn + gy * sn, (gy * cn - gx * sn) * ci + gz * si
        gci, gsi = (gy * cn - gx * sn) * v, gz * v
        gnode = -sn * (gx * u + gy * v * ci) + cn * (gy * u - gx * v * ci)
        galong, gacross = gu * cp + gv * sp, gv * cp - gu * sp
        gperigee = -sp * (gu * along + gv * across) + cp * (gv * along - gu * across)
        gat = galong * (ca - e) + gacross * q * sa
        gangle, slope = -sa * galong * at + ca * gacross * at * q, 1 - e * ca
        gmean = gangle / slope
        ge = -galong * at - gacross * at * sa * e / q + gangle * sa / slope
        ga, gdrag = gat * left * left, -0.1 * t * ge - 2 * t * gat * a * left
        grate = t * (gperigee * turn - gnode * ci + gmean * root * bend)
        groot = t * gmean * rate * bend - 4 * grate * rate / root
        gci += t * rate * (5 * ci * gperigee - gnode + 3 * ci * root * gmean)
        ga -= 2 * grate * rate / a
        g[0] += gmean * (t + 1.5 * drag * t * t) + grate * rate / n - 2 / 3 * ga * a / n
        g[1] += ge - groot * e0 / root
        g[2] += ci * gsi - si * gci
        g[3] += gnode
        g[4] += gperigee
        g[5] += gmean
        g[6] += gdrag + 1.5 * n * t * t * gmean
    return value, (g,)


WRITTEN = {
    "scalar-loop": scalar_loop,
    "lorenz": lorenz,
    "n-body": n_body,
    "lstm": lstm,
    "ba": ba,
    "gmm": gmm,
    "kalman": kalman,
    "satellite": satellite,
    "ode-calibration": ode_calibration,
}


def build(w: Row, arguments: tuple[Any, ...]) -> Built:
    """Call a compiled function; the first call compiles it."""
    if w.name not in WRITTEN:
        raise NotWrittenError("not written")
    function = WRITTEN[w.name]
    return lambda: function(*arguments), as_is
