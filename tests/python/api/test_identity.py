"""Gradients with respect to arrays that a function uses: told apart by identity."""

import threading

import numpy as np
import pytest

import cotan as ct
from cotan import _core

W = np.array([1.0, 2.0])


class Model:
    def __init__(self):
        self.a, self.b = ct.array([1.0, 2.0]), ct.array([3.0, 4.0])


def test_gradients_of_arrays_that_a_function_uses():
    m = Model()
    before = m.a
    g = ct.gradient(lambda: np.sum(m.a * m.a * m.b), wrt=[m.a, m.a])
    assert m.a is before
    assert not _core.is_active(m.a)
    assert type(g[m.a]) is ct.Array
    np.testing.assert_array_equal(np.asarray(g[m.a]), [6.0, 16.0])
    assert len(g) == 1
    assert list(g) == [m.a] or next(iter(g)) is m.a
    assert [type(v) for v in g.values()] == [ct.Array]
    with pytest.raises(KeyError, match=r"not among the \d+ arrays in wrt"):
        g[m.b]
    with pytest.raises(KeyError, match="ndarray"):
        g[W]
    value, g = ct.value_and_gradient(lambda: np.sum(m.a), wrt=(m.a, m.b))
    assert float(value) == 3.0
    assert g[m.b] is None
    _, back = ct.pullback(lambda: m.a * m.b, wrt=[m.a, m.b])
    np.testing.assert_array_equal(np.asarray(back(np.ones(2))[m.a]), [3.0, 4.0])
    only = back.wrt([m.b])(np.ones(2))
    assert only[m.a] is None
    np.testing.assert_array_equal(np.asarray(only[m.b]), [1.0, 2.0])
    with pytest.raises(ValueError, match="not with respect to one of these"):
        back.wrt([ct.array([1.0])])


def test_a_single_array_needs_no_list():
    a = ct.array([1.0, 2.0])
    np.testing.assert_array_equal(
        np.asarray(ct.gradient(lambda: np.sum(a * a), wrt=a)[a]), [2.0, 4.0]
    )


def test_arrays_are_put_back_after_an_error():
    a = ct.array(2.0)

    def fails():
        assert _core.is_active(a)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ct.gradient(fails, wrt=[a])
    assert not _core.is_active(a)
    assert float(a) == 2.0


def test_nested_gradients_of_one_array():
    a = ct.array(2.0)

    def slope():
        assert ct.isderiving()
        return ct.gradient(lambda: a**3, wrt=[a])[a]

    assert float(ct.gradient(slope, wrt=[a])[a]) == 12.0
    assert float(ct.gradient(lambda: slope() * a, wrt=[a])[a]) == 36.0
    assert float(a) == 2.0


def test_other_threads_see_the_array_itself():
    a = ct.array(2.0)
    seen = []

    def f():
        worker = threading.Thread(target=lambda: seen.append((_core.is_active(a), float(a))))
        worker.start()
        worker.join()
        return a * a

    assert float(ct.gradient(f, wrt=[a])[a]) == 4.0
    assert seen == [(False, 2.0)]
    results = []

    def work(n):
        slope = n * 2.0 ** (n - 1)
        results.extend(float(ct.gradient(lambda: a**n, wrt=[a])[a]) == slope for _ in range(50))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(2, 6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [True] * 200


def test_views_and_writes_while_an_array_stands_for_a_leaf():
    a = ct.array([1.0, 2.0, 3.0])
    view = a[1:]

    def f():
        y = np.sum(view * view)
        view[0] = 5.0
        return y + np.sum(a * a)

    g = ct.gradient(f, wrt=[a])[a]
    np.testing.assert_array_equal(np.asarray(g), [2.0, 4.0, 12.0])
    np.testing.assert_array_equal(np.asarray(a), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(np.asarray(view), [2.0, 3.0])
    with pytest.raises(TypeError, match="a view"):
        ct.gradient(f, wrt=[view])


def test_arrays_by_identity_used_wrongly():
    m = Model()
    with pytest.raises(TypeError, match=r"ct\.array"):
        ct.gradient(lambda: 1.0, wrt=[W])
    with pytest.raises(TypeError, match="has no arguments.*Model"):
        ct.gradient(lambda: 1.0, wrt=[m])
    with pytest.raises(TypeError, match="functions without arguments"):
        ct.gradient(lambda x: x, 1.0, wrt=[m.a])
