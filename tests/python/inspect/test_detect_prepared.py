"""`ct.detect` looks at prepared calls as at others."""

import numpy as np
import pytest

import cotan as ct

TRANSFORMS = ["gradient", "value_and_gradient", "value", "pullback"]


def roots(x):
    return np.sum(np.sqrt(x))


def logs(x):
    return np.sum(np.log(x))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("inside", [False, True])
def test_prepared_calls_raise(transform, inside):
    good, bad = np.array([1.0, 2.0]), np.array([-1.0, 2.0])
    prepared = None if inside else ct.prepare(roots, good, transform=transform)
    with np.errstate(all="ignore"):
        if prepared is not None:
            prepared(bad)  # nobody looks
        with ct.detect():
            prepared = prepared or ct.prepare(roots, transform=transform)
            prepared(good)
            with pytest.raises(ct.NonFiniteError) as error:
                prepared(bad)
    assert error.value.operation == "sqrt"
    assert error.value.function == "roots"


def test_infinities_of_the_reverse_pass():
    prepared = ct.prepare(logs, np.array([1.0, 2.0]))
    with ct.detect(inf=True), pytest.raises(ct.NonFiniteError):
        prepared(np.array([0.0, 1.0]))


def test_results_are_those_of_a_replay():
    prepared = ct.prepare(lambda x, c: logs(x) * c, np.ones(2), ct.const(2.0))
    x = np.array([1.0, 4.0])
    with ct.detect():
        watched = prepared(x, ct.const(3.0))
    np.testing.assert_array_equal(watched[0], prepared(x, ct.const(3.0))[0])
    out = np.empty(2)
    with ct.detect():
        prepared(x, ct.const(3.0), out=(out, None))
    np.testing.assert_array_equal(out, watched[0])
    value = ct.prepare(lambda x, name: (logs(x), name, 3), transform="value")
    with ct.detect():
        assert value(x, "a") == value(x, "a") == (np.log(4.0), "a", 3)
