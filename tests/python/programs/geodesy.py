"""Geodesy: Vincenty's inverse formula, ECEF and UTM, written with math."""

import math
from math import atan, atan2, cos, degrees, floor, radians, sin, sqrt, tan

a = 6378137.0
f = 1 / 298.257223563
b = (1 - f) * a


def vincenty_inverse(coord1, coord2, maxIter=200, tol=10**-12):
    phi_1, L_1 = coord1
    phi_2, L_2 = coord2
    u_1 = atan((1 - f) * tan(radians(phi_1)))
    u_2 = atan((1 - f) * tan(radians(phi_2)))
    L = radians(L_2 - L_1)
    Lambda = L
    sin_u1, cos_u1, sin_u2, cos_u2 = sin(u_1), cos(u_1), sin(u_2), cos(u_2)
    iters = 0
    for i in range(maxIter):
        iters += 1
        cos_lambda = cos(Lambda)
        sin_lambda = sin(Lambda)
        sin_sigma = sqrt(
            (cos_u2 * sin(Lambda)) ** 2 + (cos_u1 * sin_u2 - sin_u1 * cos_u2 * cos_lambda) ** 2
        )
        cos_sigma = sin_u1 * sin_u2 + cos_u1 * cos_u2 * cos_lambda
        sigma = atan2(sin_sigma, cos_sigma)
        sin_alpha = (cos_u1 * cos_u2 * sin_lambda) / sin_sigma
        cos_sq_alpha = 1 - sin_alpha**2
        cos2_sigma_m = cos_sigma - ((2 * sin_u1 * sin_u2) / cos_sq_alpha)
        C = (f / 16) * cos_sq_alpha * (4 + f * (4 - 3 * cos_sq_alpha))
        Lambda_prev = Lambda
        Lambda = L + (1 - C) * f * sin_alpha * (
            sigma + C * sin_sigma * (cos2_sigma_m + C * cos_sigma * (-1 + 2 * cos2_sigma_m**2))
        )
        if abs(Lambda_prev - Lambda) <= tol:
            break
    u_sq = cos_sq_alpha * ((a**2 - b**2) / b**2)
    A = 1 + (u_sq / 16384) * (4096 + u_sq * (-768 + u_sq * (320 - 175 * u_sq)))
    B = (u_sq / 1024) * (256 + u_sq * (-128 + u_sq * (74 - 47 * u_sq)))
    delta_sig = (
        B
        * sin_sigma
        * (
            cos2_sigma_m
            + 0.25
            * B
            * (
                cos_sigma * (-1 + 2 * cos2_sigma_m**2)
                - (1 / 6) * B * cos2_sigma_m * (-3 + 4 * sin_sigma**2) * (-3 + 4 * cos2_sigma_m**2)
            )
        )
    )
    m = b * A * (sigma - delta_sig)
    azimuth = atan2(cos_u2 * sin(Lambda), cos_u1 * sin_u2 - sin_u1 * cos_u2 * cos(Lambda))
    return round(m, 6), degrees(azimuth) % 360


def geodetic_to_ecef(lat, lon, h):
    e2 = f * (2 - f)
    lat, lon = math.radians(lat), math.radians(lon)
    N = a / math.sqrt(1 - e2 * math.sin(lat) ** 2)
    return (
        (N + h) * math.cos(lat) * math.cos(lon),
        (N + h) * math.cos(lat) * math.sin(lon),
        (N * (1 - e2) + h) * math.sin(lat),
    )


def utm(lat, lon):
    zone = int(floor((lon + 180) / 6)) + 1
    k0 = 0.9996
    n = f / (2 - f)
    lon0 = radians((zone - 1) * 6 - 180 + 3)
    t = math.sinh(
        math.atanh(sin(radians(lat)))
        - 2 * sqrt(n) / (1 + n) * math.atanh(2 * sqrt(n) / (1 + n) * sin(radians(lat)))
    )
    xi = atan2(t, cos(radians(lon) - lon0))
    eta = math.atanh(sin(radians(lon) - lon0) / math.hypot(1.0, t))
    A = a / (1 + n) * (1 + n**2 / 4 + n**4 / 64)
    alphas = [n / 2 - 2 / 3 * n**2, 13 / 48 * n**2]
    E = 500000 + k0 * A * (
        eta
        + sum(
            al * cos(2 * (j + 1) * xi) * math.sinh(2 * (j + 1) * eta) for j, al in enumerate(alphas)
        )
    )
    Nn = (
        k0
        * A
        * (
            xi
            + sum(
                al * sin(2 * (j + 1) * xi) * math.cosh(2 * (j + 1) * eta)
                for j, al in enumerate(alphas)
            )
        )
    )
    return E, Nn, zone


def main(lat1, lon1, lat2, lon2):
    u = radians(lat1)
    s, az = vincenty_inverse((lat1, lon1), (lat2, lon2))
    s = s if isinstance(s, float) else float(s)
    x, y, z = geodetic_to_ecef(lat1, lon1, 100.0)
    E, N, zone = utm(lat2, lon2)
    print("%.3f km, azimuth %.4f deg, zone %d" % (s / 1000, az, zone))
    return math.fsum([az / 100, math.hypot(x, y) / a, E / a, N / a, u])


ARGUMENTS = (48.85, 2.35, 40.71, -74.0)


def check():
    assert abs(vincenty_inverse((1e-3, 0.0), (0.0, 1.0))[0] - 111319.5) < 1.0
