"""Errors of cotan's that a program catches: it goes on in another way than with plain NumPy."""

import contextvars
import sys
import warnings

import numpy as np
import pytest

import cotan as ct

BUFFER = np.zeros(3)


def cost(x):
    try:
        BUFFER[0] = x**2
        return 2 * BUFFER[0] + x
    except Exception:  # noqa: BLE001 - as programs have it
        return x * 1e6


def without_rule(x):
    try:
        return np.longdouble(x) * x
    except TypeError:
        return x


@pytest.mark.parametrize("f", [cost, without_rule])
@pytest.mark.parametrize(
    "run", [ct.gradient, ct.value_and_gradient, ct.pullback, lambda f, x: ct.grad(f)(x)]
)
def test_what_is_caught_is_said(f, run):
    with pytest.warns(
        UserWarning, match="caught an error of cotan's .*: .*(drop|dropgrad)"
    ) as seen:
        run(f, 3.0)
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_inside_of_another_gradient_it_is_said_once():
    with pytest.warns(UserWarning, match="caught an error") as seen:
        ct.gradient(lambda x: ct.value_and_gradient(cost, x)[0], 3.0)
    assert len(seen) == 1


def test_an_inner_gradient_that_fails_and_is_caught_is_said():
    def storing(x):
        BUFFER[1] = x
        return BUFFER[1]

    def f(x):
        try:
            return ct.gradient(storing, x)[0]
        except TypeError:
            return x

    with pytest.warns(UserWarning, match="caught an error"):
        ct.gradient(f, 3.0)


def test_an_error_that_arrives_is_not_said():
    def storing(x):
        BUFFER[0] = x
        return BUFFER[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match="would drop the gradient"):
            ct.gradient(storing, 3.0)
        # Nothing of it is left for the next one.
        assert ct.gradient(lambda x: x * x, 3.0) == (6.0,)


def test_refusals_belong_to_the_recording_that_met_them():
    """Two recordings take turns in one thread: the one that caught nothing warns of nothing."""
    greenlet = pytest.importorskip("greenlet")

    def clean(x):
        main.switch()
        return x * x

    def catching(x):
        try:
            BUFFER[0] = x**2
        except ValueError:  # NumPy makes this of a refused float().
            main.switch()
        return x * 2.0

    main = greenlet.getcurrent()
    found = {}

    def run(f):
        found[f] = ct.gradient(f, 3.0)

    first, second = greenlet.greenlet(run), greenlet.greenlet(run)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        # In a free-threaded Python it is the context that catches warnings.
        first.gr_context = contextvars.copy_context()
        second.gr_context = contextvars.copy_context()
        first.switch(clean)
        second.switch(catching)
        first.switch()  # Ends while the other one goes on after a refusal.
        assert (found, seen) == ({clean: (6.0,)}, [])
        second.switch()
    assert found[catching] == (2.0,)
    assert len(seen) == 1


def test_errors_that_numpy_has_too_are_caught_in_silence():
    def f(x):
        try:
            return np.sum(x[:2] + x[:3])
        except ValueError:
            return np.sum(x)

    def g(x):
        return x * len(str(sys.version_info))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(ct.gradient(f, np.ones(4))[0], np.ones(4))
        ct.gradient(g, 2.0)


def test_a_warning_that_is_an_error_arrives():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="caught an error"):
            ct.gradient(cost, 3.0)
    assert ct.isderiving() is False
