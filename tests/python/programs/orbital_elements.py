"""Astrodynamics: orbital elements and state vectors, J2 drift, ground track."""

import numpy as np
from numpy import arccos, cos, cross, dot, pi, sin, sqrt
from numpy.linalg import norm

MU = 398600.4418
RE = 6378.137
J2 = 1.08262668e-3


def kepler_E(e, M, tol=1e-12):
    E = M + e / 2 if pi > M else M - e / 2
    ratio = 1
    while abs(ratio) > tol:
        ratio = (E - e * sin(E) - M) / (1 - e * cos(E))
        E = E - ratio
    return E


def coe2rv(a, e, i, O, w, nu):
    p = a * (1 - e**2)
    r_p = np.array([p * cos(nu) / (1 + e * cos(nu)), p * sin(nu) / (1 + e * cos(nu)), 0])
    v_p = np.array([-sqrt(MU / p) * sin(nu), sqrt(MU / p) * (e + cos(nu)), 0])
    R3_O = np.array([[cos(O), sin(O), 0], [-sin(O), cos(O), 0], [0, 0, 1]])
    R1_i = np.array([[1, 0, 0], [0, cos(i), sin(i)], [0, -sin(i), cos(i)]])
    R3_w = np.array([[cos(w), sin(w), 0], [-sin(w), cos(w), 0], [0, 0, 1]])
    Q = (R3_w @ R1_i @ R3_O).T
    return Q @ r_p, Q @ v_p


def rv2coe(R, V):
    r = norm(R)
    v = norm(V)
    vr = dot(R, V) / r
    H = cross(R, V)
    h = norm(H)
    incl = arccos(H[2] / h)
    N = cross([0, 0, 1], H)
    n = norm(N)
    if n != 0:
        RA = arccos(N[0] / n)
        if N[1] < 0:
            RA = 2 * pi - RA
    else:
        RA = 0
    E = 1 / MU * ((v**2 - MU / r) * R - r * vr * V)
    e = norm(E)
    w = arccos(dot(N, E) / n / e)
    if E[2] < 0:
        w = 2 * pi - w
    TA = arccos(dot(E, R) / e / r)
    if vr < 0:
        TA = 2 * pi - TA
    a = h**2 / MU / (1 - e**2)
    coe = [h, e, RA, incl, w, TA, a]
    return coe


def main(R0, V0, dt):
    h, e, RA, incl, w, TA, a = rv2coe(R0, V0)
    n = sqrt(MU / a**3)
    fac = -1.5 * sqrt(MU) * J2 * RE**2 / (1 - e**2) ** 2 / a ** (7 / 2)
    RAdot = fac * cos(incl)
    wdot = fac * (5 / 2 * sin(incl) ** 2 - 2)
    E0 = 2 * np.arctan(np.tan(TA / 2) * sqrt((1 - e) / (1 + e)))
    M0 = E0 - e * sin(E0)
    ras, decs = [], []
    for k in range(1, 6):
        M = (M0 + n * k * dt) % (2 * pi)
        E = kepler_E(e, M)
        nu = 2 * np.arctan2(sqrt(1 + e) * sin(E / 2), sqrt(1 - e) * cos(E / 2))
        r, v = coe2rv(a, e, incl, RA + RAdot * k * dt, w + wdot * k * dt, nu)
        theta = 7.292115e-5 * k * dt
        Rot = np.array([[cos(theta), sin(theta), 0], [-sin(theta), cos(theta), 0], [0, 0, 1]])
        l, m, nn = Rot.dot(r) / norm(r)
        dec = np.rad2deg(np.arcsin(nn))
        ra = np.degrees(np.arctan2(m, l)) % 360
        ras.append(ra)
        decs = np.append(decs, dec)
    ras = np.unwrap(ras, period=360)
    print(f"a = {a:.1f} km, e = {e:.4f}")
    return ras[-1] / 100 + decs.sum() / 100 + e


ARGUMENTS = (np.array([-6045.0, -3490.0, 2500.0]), np.array([-3.457, 6.618, 2.533]), 700.0)


def check():
    r, v = coe2rv(7000.0, 0.1, 0.5, 0.6, 0.7, 0.8)
    c = rv2coe(r, v)
    assert np.allclose([c[6], c[1], c[3], c[2], c[4], c[5]], [7000.0, 0.1, 0.5, 0.6, 0.7, 0.8])
