"""Navigation: a receiver's position from pseudoranges, on an earth that turns."""

from math import atan2, cos, radians, sin, sqrt

from numpy import array, dot, empty, eye, ones, trace, zeros
from numpy.linalg import LinAlgError, inv, norm, solve

EARTH_RADIUS = 6378.137
FLATTENING = 1 / 298.257223563
ROTATION = 7.2921151467e-5
LIGHT = 299792.458


def to_ecef(latitude, longitude, height):
    e2 = FLATTENING * (2 - FLATTENING)
    n = EARTH_RADIUS / sqrt(1 - e2 * sin(latitude) ** 2)
    return array(
        [
            (n + height) * cos(latitude) * cos(longitude),
            (n + height) * cos(latitude) * sin(longitude),
            (n * (1 - e2) + height) * sin(latitude),
        ]
    )


def to_geodetic(position):
    """Bowring's iteration."""
    x, y, z = position
    e2 = FLATTENING * (2 - FLATTENING)
    p = sqrt(x * x + y * y)
    latitude = atan2(z, p * (1 - e2))
    for _ in range(6):
        n = EARTH_RADIUS / sqrt(1 - e2 * sin(latitude) ** 2)
        height = p / cos(latitude) - n
        latitude = atan2(z, p * (1 - e2 * n / (n + height)))
    return latitude, atan2(y, x), height


def satellites():
    for elevation, azimuth in ((75, 20), (40, 110), (30, 200), (55, 290), (20, 340), (35, 60)):
        yield radians(elevation), radians(azimuth)


def constellation(site, height=20200.0):
    latitude, longitude, _ = to_geodetic(site)
    up = array([cos(latitude) * cos(longitude), cos(latitude) * sin(longitude), sin(latitude)])
    east = array([-sin(longitude), cos(longitude), 0.0])
    north = array([-sin(latitude) * cos(longitude), -sin(latitude) * sin(longitude), cos(latitude)])
    for el, az in satellites():
        yield site + height * (cos(el) * (sin(az) * east + cos(az) * north) + sin(el) * up)


def geometric_range(satellite, receiver):
    rho = norm(satellite - receiver)
    theta = ROTATION * rho / LIGHT
    turned = array([[cos(theta), sin(theta), 0.0], [-sin(theta), cos(theta), 0.0], [0.0, 0.0, 1.0]])
    return dot(turned, satellite)


def position(sats, pseudoranges, start, zenith_delay, iterations=10):
    x = zeros(4)
    x[:3] = start
    for _ in range(iterations):
        H = ones((len(sats), 4))
        residual = empty(len(sats))
        for i, (sat, measured) in enumerate(zip(sats, pseudoranges)):
            line = geometric_range(sat, x[:3]) - x[:3]
            rho = norm(line)
            H[i, :3] = -line / rho
            sin_elevation = dot(line / rho, x[:3] / norm(x[:3]))
            residual[i] = measured - rho - x[3] - zenith_delay / sin_elevation
        try:
            dx = solve(H.T @ H, H.T @ residual)
        except LinAlgError:
            dx = solve(H.T @ H + 1e-9 * eye(4), H.T @ residual)
        x += dx
        if norm(dx) < 1e-9:
            break
    return x, H, residual


TRUE = to_ecef(radians(47.4), radians(8.5), 0.45)
SATELLITES = list(constellation(TRUE))
RANGES = array([norm(geometric_range(s, TRUE) - TRUE) for s in SATELLITES]) + 12.0


def main(errors, zenith_delay):
    """Errors of the ranges in kilometres."""
    x, H, residual = position(
        SATELLITES, RANGES + errors, TRUE + array([50.0, -30.0, 20.0]), zenith_delay
    )
    _, _, height = to_geodetic(x[:3])
    dilution = sqrt(trace(inv(H.T @ H)))
    return (
        1e3 * norm(x[:3] - TRUE) + 10 * (height - 0.45) + dilution + 1e4 * dot(residual, residual)
    )


ARGUMENTS = (1e-3 * array([20.0, -10.0, 30.0, 5.0, -25.0, 15.0]), 0.0024)


def check():
    latitude, longitude, height = to_geodetic(TRUE)
    assert abs(latitude - radians(47.4)) < 1e-12
    assert abs(longitude - radians(8.5)) < 1e-12
    assert abs(height - 0.45) < 1e-8
    x, _, _ = position(SATELLITES, RANGES, TRUE + 10.0, 0.0)
    assert norm(x[:3] - TRUE) < 1e-6
    assert abs(x[3] - 12.0) < 1e-6
