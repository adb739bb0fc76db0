"""Calibrate an optical model: find the radii, glass and alignment of a lens from where rays land.

A doublet was designed with one set of parameters and built with another, slightly decentred. Rays
through it were measured on a screen at two distances, with noise. The ray tracer is plain NumPy.
Newton's method with cotan's gradient and Hessian finds the parameters as built, with error bars:

    python examples/lens.py --out lens.png
"""

import argparse
import time
from pathlib import Path

import numpy as np

import cotan as ct

SCREENS = (80.0, 100.0)  # distances behind the lens, in mm
NOISE = 0.005
NAMES = (
    "curvature 1, 1/m",
    "curvature 2, 1/m",
    "curvature 3, 1/m",
    "thickness of the crown, mm",
    "index of the crown",
    "index of the flint",
    "second surface off by, mm",
)
DRAWN = np.array([16.3, -22.5, -6.0, 6.0, 1.5168, 1.6200, 0.0])
BUILT = np.array([16.9, -21.8, -6.6, 5.7, 1.5192, 1.6170, 0.12])
# Manufacturing tolerances, as standard deviations of the prior.
TOLERANCES = np.array([1.0, 1.0, 1.0, 0.3, 0.003, 0.003, 0.2])


def refract(y, slope, curvature, offset, z, ratio):
    """Refract meridional rays at a sphere with its vertex at z; give places and new slopes."""
    cos = 1 / np.sqrt(1 + slope**2)
    sin = slope * cos
    # from the plane of the vertex along the ray to the sphere
    height = y - offset
    b = cos - curvature * height * sin
    t = curvature * height**2 / (b + np.sqrt(b**2 - (curvature * height) ** 2))
    y, depth = y + t * sin, t * cos
    normal_y = -curvature * (y - offset)
    normal_z = 1 - curvature * depth
    into = sin * normal_y + cos * normal_z
    out = np.sqrt(1 - ratio**2 * (1 - into**2))
    shift = out - ratio * into
    return y, z + depth, (ratio * sin + shift * normal_y) / (ratio * cos + shift * normal_z)


def trace(p, y, slope):
    """Trace all rays: positions and heights at the start, the surfaces, and the screens."""
    *curvatures, thickness, crown, flint, offset = p
    vertices = np.array([0.0, 0.0, 3.0])
    vertices[1:] += thickness
    indices = [1.0, crown, flint, 1.0]
    ys, zs = [y], [np.full_like(y, -15.0)]
    for k, vertex in enumerate(vertices):
        y = y + slope * (vertex - zs[-1])
        y, z, slope = refract(
            y,
            slope,
            curvatures[k] / 1000,
            offset if k == 1 else 0.0,
            vertex,
            indices[k] / indices[k + 1],
        )
        ys.append(y)
        zs.append(z)
    for screen in SCREENS:
        at = vertices[-1] + screen
        ys.append(ys[3] + slope * (at - zs[3]))
        zs.append(np.full_like(y, 1.0) * at)
    return np.array(zs), np.array(ys)


def beam(n=15):
    """Give heights and slopes of parallel rays in three directions."""
    slopes = np.repeat(np.tan(np.radians([-3.0, 0.0, 3.0])), n)
    heights = np.tile(np.linspace(-12, 12, n), 3)
    return heights - 15 * slopes, slopes


def misfit(p, seen):
    """Give the negative logarithm of the posterior density."""
    _, ys = trace(p, *beam())
    data = np.sum(((ys[-2:] - seen) / NOISE) ** 2)
    return 0.5 * (data + np.sum(((p - DRAWN) / TOLERANCES) ** 2))


def draw(found: np.ndarray, seen: np.ndarray, path: Path) -> None:
    try:
        import matplotlib as mpl  # noqa: PLC0415

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    fig, (ax, rest) = plt.subplots(
        1, 2, figsize=(10, 3.8), layout="constrained", width_ratios=(2, 1)
    )
    heights, slopes = beam()
    zs, ys = trace(found, heights, slopes)
    for k in range(0, len(heights), 2):
        ax.plot(zs[:, k], ys[:, k], color=f"C{k // 15}", linewidth=0.7)
    edge = np.linspace(-14, 14, 60)
    vertices = (0.0, found[3], found[3] + 3.0)
    for vertex, curvature, offset in zip(vertices, found[:3] / 1000, (0, found[6], 0), strict=True):
        sag = curvature * (edge - offset) ** 2
        sag /= 1 + np.sqrt(1 - (curvature * (edge - offset)) ** 2)
        ax.plot(vertex + sag, edge, color="0.2")
    for screen in SCREENS:
        ax.axvline(vertices[-1] + screen, color="0.7", linewidth=0.8)
    ax.set(xlabel="mm", ylabel="mm", title="the lens that was found")
    for p, name, color in ((DRAWN, "as drawn", "0.7"), (found, "as found", "C3")):
        residual = 1000 * (seen - trace(p, heights, slopes)[1][-2:])
        rest.plot(np.abs(residual).ravel() + 0.01, ".", color=color, label=name)
    rest.axhline(1000 * NOISE, color="k", linewidth=0.8, linestyle=":", label="noise")
    rest.set(yscale="log", xlabel="ray", ylabel="µm", title="misses on the screens")
    rest.legend()
    fig.savefig(path, dpi=120)
    plt.close(fig)
    print(f"picture: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("lens.png"), help="picture")
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    seen = trace(BUILT, *beam())[1][-2:]
    seen += NOISE * rng.standard_normal(seen.shape)

    p = DRAWN.copy()
    start = time.perf_counter()
    for step in range(1, 30):
        value, (gradient, _) = ct.value_and_gradient(misfit, p, ct.const(seen))
        hessian = ct.hessian(lambda q: misfit(q, seen), p)
        # far from the minimum the Hessian may be indefinite
        curvatures, axes = np.linalg.eigh(hessian * np.outer(TOLERANCES, TOLERANCES))
        scaled = axes.T @ (TOLERANCES * gradient)
        move = -TOLERANCES * (axes @ (scaled / np.abs(curvatures)))
        size = 1.0
        while misfit(p + size * move, seen) > value and size > 1e-6:
            size /= 2
        p = p + size * move
        print(f"step {step}: misfit {value:.6g}")
        if -gradient @ move < 1e-9:
            break
    seconds = time.perf_counter() - start
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))

    print(f"\n{'':27s}    drawn    built    found")
    for name, *numbers in zip(NAMES, DRAWN, BUILT, p, errors, strict=True):
        print("{:27s} {:8.4f} {:8.4f} {:8.4f} ± {:.4f}".format(name, *numbers))
    draw(p, seen, args.out)
    before, after = (
        1000 * np.sqrt(np.mean((seen - trace(q, *beam())[1][-2:]) ** 2)) for q in (DRAWN, p)
    )
    print(
        f"{step} steps in {seconds:.2f} s; rays miss by {before:.0f} µm as drawn, {after:.1f} µm "
        f"as found; the noise is {1000 * NOISE:.1f} µm"
    )


if __name__ == "__main__":
    main()
