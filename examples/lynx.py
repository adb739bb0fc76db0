"""Fit the Lotka-Volterra equations to yearly counts of hare and lynx furs.

The counts are those of the Hudson's Bay Company, 1900 to 1920, in thousands, taken from P. Howard,
"Modeling basics", by way of Stan's case study of predators and prey. The simulation is plain NumPy
that fills an array in a loop. SciPy's minimizer gets its gradient from cotan, and the Hessian at
the minimum gives the errors of the parameters:

    python examples/lynx.py --out lynx.png
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import cotan as ct

YEARS = np.arange(1900, 1921)
HARES = """
    30.0 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22.0 25.4 27.1
    40.3 57.0 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7
"""
LYNXES = """
    4.0 6.1 9.8 35.2 59.4 41.7 19.0 13.0 8.3 9.1 7.4
    8.0 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6
"""
FURS = np.array([HARES.split(), LYNXES.split()], dtype=float).T
STEPS = 12  # per year
NAMES = (
    "births of hares",
    "hares caught, by lynx",
    "deaths of lynxes",
    "births of lynxes, by hare",
    "hares in 1900",
    "lynxes in 1900",
)
START = (0.5, 0.02, 0.8, 0.02, 30.0, 4.0)


def rates(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    hares, lynxes = y
    return np.array([(p[0] - p[1] * lynxes) * hares, (p[3] * hares - p[2]) * lynxes])


def simulate(p: np.ndarray, steps: int = STEPS) -> np.ndarray:
    """Integrate with the classical Runge-Kutta method; give one row for each step."""
    h = 1 / steps
    states = np.empty(((len(YEARS) - 1) * steps + 1, 2))
    states[0] = p[4:]
    for n in range(len(states) - 1):
        y = states[n]
        k1 = rates(y, p)
        k2 = rates(y + h / 2 * k1, p)
        k3 = rates(y + h / 2 * k2, p)
        k4 = rates(y + h * k3, p)
        states[n + 1] = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return states


def misfit(log_p: np.ndarray) -> np.ndarray:
    """Give the negative log-likelihood of log-normal counts with unknown variance."""
    model = np.log(simulate(np.exp(log_p))[::STEPS])
    variance = np.mean((model - np.log(FURS)) ** 2, axis=0)
    return 0.5 * len(YEARS) * np.sum(np.log(variance))


def draw(p: np.ndarray, path: Path) -> None:
    try:
        import matplotlib as mpl  # noqa: PLC0415

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    fig, (ax, cycle) = plt.subplots(
        1, 2, figsize=(9, 3.5), layout="constrained", width_ratios=(2, 1)
    )
    states = simulate(p)
    years = np.linspace(YEARS[0], YEARS[-1], len(states))
    before = simulate(np.array(START))
    for column, name in enumerate(("hares", "lynxes")):
        ax.plot(years, before[:, column], color=f"C{column}", linewidth=0.8, linestyle=":")
        ax.plot(years, states[:, column], color=f"C{column}", label=name)
        ax.plot(YEARS, FURS[:, column], "o", color=f"C{column}", markersize=4)
    ax.set(xlabel="year", ylabel="furs, thousands", xticks=YEARS[::5], title="dotted: first guess")
    ax.legend(loc="upper right")
    cycle.plot(*states.T, color="0.4")
    cycle.plot(*FURS.T, "o", color="0.7", markersize=4)
    cycle.set(xlabel="hares", ylabel="lynxes", title="the cycle")
    fig.savefig(path, dpi=120)
    plt.close(fig)
    print(f"picture: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("lynx.png"), help="picture")
    args = parser.parse_args()

    def fun(log_p: np.ndarray) -> tuple[float, np.ndarray]:
        value, (gradient,) = ct.value_and_gradient(misfit, log_p)
        return value, gradient

    start = time.perf_counter()
    fit = minimize(fun, np.log(START), jac=True, method="BFGS")
    seconds = time.perf_counter() - start
    errors = np.sqrt(np.diag(np.linalg.inv(ct.hessian(misfit, fit.x))))

    p = np.exp(fit.x)
    for name, value, error in zip(NAMES, p, p * errors, strict=True):
        print(f"{name:26s} {value:8.4f} ± {error:.4f}")
    period = 2 * np.pi / np.sqrt(p[0] * p[2])
    draw(p, args.out)
    print(
        f"misfit {misfit(np.log(START)):.2f} before, {fit.fun:.2f} after {fit.nit} steps; "
        f"{1e3 * seconds / fit.nfev:.1f} ms for a gradient; a small cycle takes {period:.1f} years"
    )


if __name__ == "__main__":
    main()
