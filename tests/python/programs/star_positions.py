"""Astronomy: precession, the sun's position, sidereal time, altitudes of a catalogue."""

import datetime as dt
import math

import numpy as np

CATALOG = """
Sirius 6.752477 -16.716116 -1.46
Vega 18.615649 38.783690 0.03
Deneb 20.690532 45.280339 1.25
"""


def parse(text):
    stars = {}
    for line in text.strip().splitlines():
        name, ra, dec, mag = line.split()
        stars[name] = dict(ra=float(ra) * 15, dec=float(dec), mag=float(mag))
    return stars


def julian(d):
    a = (14 - d.month) // 12
    y, m = d.year + 4800 - a, d.month + 12 * a - 3
    jdn = d.day + (153 * m + 2) // 5 + 365 * y + y // 4 - y // 100 + y // 400 - 32045
    return jdn + (d.hour - 12) / 24.0 + d.minute / 1440.0


def rot(axis, angle):
    c, s = math.cos(angle), math.sin(angle)
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    M = np.identity(3)
    M[i, i] = M[j, j] = c
    M[i, j], M[j, i] = s, -s
    return M


def precession(T):
    as2r = math.pi / 648000
    zeta = (2306.2181 * T + 0.30188 * T**2 + 0.017998 * T**3) * as2r
    z = (2306.2181 * T + 1.09468 * T**2 + 0.018203 * T**3) * as2r
    theta = (2004.3109 * T - 0.42665 * T**2 - 0.041833 * T**3) * as2r
    return rot(2, -z).dot(rot(1, theta)).dot(rot(2, -zeta))


def sun(T):
    M = math.radians((357.52911 + 35999.05029 * T) % 360)
    L0 = 280.46646 + 36000.76983 * T
    C = (1.914602 - 0.004817 * T) * math.sin(M) + 0.019993 * math.sin(2 * M)
    lam = math.radians((L0 + C) % 360)
    eps = math.radians(23.439291 - 0.0130042 * T)
    return math.atan2(math.cos(eps) * math.sin(lam), math.cos(lam)), math.asin(
        math.sin(eps) * math.sin(lam)
    )


def altaz(ra, dec, lat, lst):
    H = math.radians(lst) - ra
    alt = math.asin(math.sin(lat) * math.sin(dec) + math.cos(lat) * math.cos(dec) * math.cos(H))
    az = math.atan2(
        -math.cos(dec) * math.sin(H),
        math.sin(dec) * math.cos(lat) - math.cos(dec) * math.cos(H) * math.sin(lat),
    )
    return math.degrees(alt), math.degrees(az) % 360


def airmass(alt):
    try:
        if alt < 0:
            raise ValueError("below the horizon")
        return 1.0 / math.sin(math.radians(alt + 244.0 / (165.0 + 47.0 * alt**1.1)))
    except ValueError:
        return 40.0


def main(lat, lon, hours):
    stars = parse(CATALOG)
    jd = julian(dt.datetime(2024, 7, 1, 22, 0)) + hours / 24
    T = (jd - 2451545.0) / 36525
    P = precession(T)
    gmst = (280.46061837 + 360.98564736629 * (jd - 2451545.0)) % 360
    lst = gmst + lon
    total, report = 0.0, []
    for name, star in sorted(stars.items(), key=lambda kv: kv[1]["mag"]):
        ra, dec = math.radians(star["ra"]), math.radians(star["dec"])
        v = P @ np.array(
            [math.cos(dec) * math.cos(ra), math.cos(dec) * math.sin(ra), math.sin(dec)]
        )
        ra, dec = math.atan2(v[1], v[0]), math.asin(v[2])
        alt, az = altaz(ra, dec, math.radians(lat), lst)
        report.append(f"{name:>8s} {alt:7.2f} {az:7.2f}")
        total += 0.01 * alt + 0.01 * az + 0.05 * airmass(alt)
    ra, dec = sun(T)
    alt, az = altaz(ra, dec, math.radians(lat), lst)
    assert len("\n".join(report)) > 10
    return total + alt / 10


ARGUMENTS = (48.1, 11.6, 0.3)


def check():
    assert julian(dt.datetime(2000, 1, 1, 12)) == 2451545.0
