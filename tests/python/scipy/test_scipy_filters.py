"""The design of filters, and linear systems, of `scipy.signal` under a gradient."""

import numpy as np
import pytest
from scipy import signal
from scipy_cases import check

import cotan as ct

X = np.random.default_rng(1).normal(size=30)
T = np.linspace(0.0, 2.0, 15)
BANDS = np.array([0.3, 0.55])
P = np.array([1.1, 0.7, 2.3])


@pytest.mark.parametrize("btype", ["low", "highpass", "bandpass", "bandstop"])
@pytest.mark.parametrize("order", [2, 3])
def test_edges(order, btype):
    edges = BANDS if btype.startswith("band") else 0.35
    for design in (
        lambda w, **options: signal.butter(order, w, btype, **options),
        lambda w, **options: signal.cheby1(order, 1.0, w, btype, **options),
        lambda w, **options: signal.cheby2(order, 30.0, w, btype=btype, **options),
        lambda w, **options: signal.ellip(order, 1.0, 30.0, w, btype, **options),
        lambda w, **options: signal.bessel(order, w, btype, norm="mag", **options),
        lambda w, **options: signal.iirfilter(order, w, btype=btype, ftype="butter", **options),
    ):
        check(lambda w, d=design: np.concatenate(d(w)), edges, value_rtol=0)
        check(lambda w, d=design: d(w, output="sos"), edges, value_rtol=0)
        check(lambda w, d=design: np.abs(np.concatenate(d(w, output="zpk")[:2])), edges)
    check(lambda w, fs: signal.butter(order, w, btype, fs=fs)[1], 1000.0 * edges, 4100.0)
    check(lambda w: signal.butter(order, w, btype, analog=True)[1], 3 * edges)


def test_what_is_filtered_depends_on_the_edge():
    check(lambda x, w: signal.lfilter(*signal.butter(2, w), x), X, 0.3, second=True)
    check(lambda x, w: signal.sosfilt(signal.butter(3, [0.2, w], "band", output="sos"), x), X, 0.5)
    check(lambda x, w: signal.filtfilt(*signal.butter(2, w / 50.0, "high"), x), X, 12.0)


def test_ripples():
    check(lambda r: signal.cheby1(4, r, 0.3)[0], 1.3)
    check(lambda r: signal.cheby1(3, r, 0.3, output="sos"), 1.3)
    check(lambda r: np.concatenate(signal.cheby2(3, r, 0.3)), 31.0)
    with pytest.raises(TypeError, match="ellip with respect to its ripples"):
        ct.gradient(lambda r: np.sum(signal.ellip(3, r, 30.0, 0.3)[0]), 1.3)
    with pytest.raises(ValueError, match="critical frequencies"):
        ct.gradient(lambda w: np.sum(signal.butter(3, w)[0]), 1.3)


def test_resonators_and_sections():
    for name in ("iirnotch", "iirpeak"):
        check(
            lambda w, q, fs, n=name: np.concatenate(getattr(signal, n)(w, q, fs)), 30.0, 4.0, 200.0
        )
    check(lambda p: signal.tf2sos([1.0, p[0], 0.2, p[2]], [1.0, 0.3 * p[1], 0.1]), P)
    z, p, k = signal.butter(3, 0.3, output="zpk")
    check(lambda k, r: signal.zpk2sos(z, p * r, k), k, 0.9)


SYSTEMS = {
    "polynomials": lambda p: ([p[0]], [1.0, p[1], p[2]]),
    "zeros": lambda p: ([-p[0]], [-p[1], -p[2]], p[0]),
    "states": lambda p: (
        np.array([[0.0, 1.0], [-p[0] / p[1], -p[2]]]),
        np.array([[0.0], [1.0]]),
        np.array([[1.0, p[1]]]),
        np.array([[0.3]]),
    ),
}


@pytest.mark.parametrize("form", SYSTEMS)
def test_responses(form):
    make = SYSTEMS[form]
    for interp in (True, False):
        check(lambda p, u: signal.lsim(make(p), u, T, interp=interp)[1], P, np.sin(T))
    check(lambda p: signal.step(make(p), T=T)[1], P)
    check(lambda p: signal.impulse(make(p), N=12), P)
    check(lambda p: signal.lti(*make(p)).step(T=T)[1], P)
    check(lambda p: signal.lti(*make(p)).impulse(T=T)[1], P)
    check(lambda p: signal.lti(*make(p)).output(np.sin(T), T, X0=[0.1, p[0]])[1], P)
    check(lambda p: signal.lti(*make(p)).to_ss().A, P)
    check(lambda p: np.array(signal.bode(signal.lti(*make(p)), T + 1)[1:]), P)
    check(lambda p: np.abs(signal.lti(*make(p)).freqresp(T)[1]), P)
    discrete = lambda p: (*make(0.1 * p), 0.5)
    check(lambda p: signal.dlsim(discrete(p), X)[1], P)
    check(lambda p: signal.dlsim(discrete(p), X, x0=1)[1], P)
    times = np.array([0.0, 0.7, 1.0, 2.6, 3.1])
    check(lambda p, u: signal.dlsim(discrete(p), u, times)[1], P, np.cos(times))
    check(lambda p: signal.dstep(discrete(p), n=7)[1][0], P)
    check(lambda p: signal.dstep(discrete(p), t=times)[1][0], P)
    check(lambda p: signal.dimpulse(discrete(p), n=7)[1][0], P)
    check(lambda p: signal.dlti(*discrete(p)[:-1], dt=0.5).output(X, None)[1], P)
    # SciPy's rounding of times leaves out the last sample.
    check(lambda p: signal.dimpulse((*make(0.1 * p), 0.7), n=3)[1][0], P)
    check(lambda dt: signal.dstep((*make(0.1 * P), dt), n=5)[0], 0.5)
    if form != "zeros":
        check(lambda p: signal.cont2discrete(make(p), 0.1)[1], P)
    check(lambda p, dt: signal.lti(*make(p)).to_discrete(dt, "bilinear").to_ss().A, P, 0.1)


def test_a_constant_discrete_system_is_run_at_given_times():
    times = [0.0, 1.0, 2.0, 3.0]
    run = lambda u: signal.dlsim(([0.5], [1.0, -0.5], 1.0), u, t=times)[1]
    seen = []

    def recorded(x):
        seen.append(np.array(run(np.asarray([0.0, 0.0, 1.0, 1.0]))))
        return x

    ct.gradient(recorded, 1.0)
    np.testing.assert_allclose(seen[0], run(np.array([0.0, 0.0, 1.0, 1.0])))
    with pytest.raises(TypeError, match="dlsim with respect to t"):
        ct.gradient(
            lambda h: np.sum(
                signal.dlsim(([0.5], [1.0, -0.5], 1.0), times, t=[0.0, 1.0, h, 3.0])[1]
            ),
            2.0,
        )


def test_lowpass_filters_become_others():
    check(lambda p, w: signal.lp2lp([p[0]], p, w), P, 1.3)
    check(lambda p, w: signal.lp2hp([p[0]], p, w), P, 1.3)
    check(lambda p, w, width: signal.lp2bp([p[0]], p, w, width), P, 1.3, 0.4)
    check(lambda p, w, width: signal.lp2bs([p[0]], p, w, width), P, 1.3, 0.4)


def test_forms():
    states = SYSTEMS["states"]
    check(
        lambda p: np.concatenate([signal.ss2tf(*states(p))[0][0], signal.ss2tf(*states(p))[1]]), P
    )
    check(lambda p: signal.tf2ss([[0.0, p[0], 1.0], [p[1], 2.0, p[2]]], [p[2], 1.0, 3.0])[2], P)
    check(lambda p: signal.tf2ss([p[0]], [p[1]])[3], P)
    check(lambda p: signal.StateSpace(*states(p)).to_tf().den, P)
    check(lambda p: signal.lsim(signal.butter(2, p[0], analog=True), X, 0.1 * np.arange(30))[1], P)


def test_poles_that_are_placed():
    poles = np.array([-1 + 1j, -1 - 1j, -3])

    def gain(p, places=poles):
        a = np.array([[0.0, 1.0, 0.0], [2 * p[0], 0.1, 1.0], [0.0, -1.0, -p[1]]])
        return signal.place_poles(a, np.array([[0.0], [1.0], [p[2]]]), places)

    check(lambda p: gain(p).gain_matrix, P)
    check(lambda p, s: gain(p, s * poles).gain_matrix, P, 1.2)
    check(lambda p, places: gain(p, places).gain_matrix, P, np.array([-1.0, -2.0, -3.0]))
    with pytest.raises(TypeError, match="computed_poles of place_poles has no derivative rule"):
        ct.gradient(lambda p: np.sum(gain(p).computed_poles.real), P)
    with pytest.raises(TypeError, match="signal.residue has no derivative rule.*np.roots"):
        ct.gradient(lambda p: signal.residue(p, [1.0, 3.0, 2.0])[0][0], P)
    with pytest.raises(TypeError, match=r"signal.remez has no derivative rule.*firls"):
        ct.gradient(lambda p: signal.remez(11, [0, p, 0.3, 0.5], [1, 0])[0], 0.1)
    with pytest.raises(TypeError, match="place_poles: with 2 inputs the gain is not unique"):
        ct.gradient(lambda p: signal.place_poles(np.diag(p), np.eye(3)[:, :2] + 1, [-1, -2, -3]), P)
