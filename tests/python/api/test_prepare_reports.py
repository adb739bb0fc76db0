"""Prepared functions say what is recorded, and why it was recorded anew."""

import warnings

import numpy as np
import pytest

import cotan as ct


class Model:
    def __init__(self):
        self.w = np.ones(2)
        self.layers = [1.0, 2.0]


scale = 2.0
model = Model()


def loss(x):
    if x[0] > 0:
        return np.sum(model.w * x) * scale * model.layers[0]
    return np.sum(x)


def last_reason(g):
    return g.explain().recordings[-1].reason


def test_reasons_name_source_and_values(monkeypatch):
    g = ct.prepare(loss, np.ones(2))
    g(np.ones(2))
    assert last_reason(g) is None
    g(-np.ones(2))
    reason = last_reason(g)
    assert reason.source.startswith("decision at ")
    assert reason.source.partition(":")[0].endswith("test_prepare_reports.py")
    assert (reason.old, reason.new) == ("True", "False")
    monkeypatch.setitem(globals(), "scale", 3.0)
    g(np.ones(2))
    reason = last_reason(g)
    assert (reason.source, reason.old, reason.new) == ("global scale", "2.0", "3.0")
    monkeypatch.setattr(model, "layers", [5.0, 2.0])
    g(np.ones(2))
    assert last_reason(g).source == "global model.layers"
    model.w[0] = 7.0
    g(np.ones(2))
    assert last_reason(g).source == "global model.w"
    model.w[0] = 1.0
    g(np.ones(2, np.float32))
    assert str(last_reason(g)) == "argument x: f32[2] (was f64[2])"
    report = g.explain()
    assert report.num_recordings == len(report.recordings) == len(report.specializations) == 6
    assert [r.number for r in report.recordings] == [1, 2, 3, 4, 5, 6]
    assert report.transform == "gradient"


def test_guards_are_listed_with_sources():
    k = 2.0
    g = ct.prepare(lambda x: x * k if x > 0 else -x, 1.0)
    g(1.0)
    g(2.0)
    (specialization,) = g.explain().specializations
    guards = {guard.source: guard.guard for guard in specialization.guards}
    assert guards["closure variable k"] == "is 2.0"
    (decision,) = (s for s in guards if s.startswith("decision"))
    assert guards[decision] == "the value is True"
    assert specialization.arguments == {"argument x": "f64[]"}
    assert specialization.num_replays == 2
    text = str(g.explain())
    assert "closure variable k: is 2.0" in text
    assert "replayed 2 times" in text


def test_constants_and_structures_are_reasons():
    g = ct.prepare(lambda x, n: x * n, 1.0, ct.const(2), transform="value")
    g(1.0, 3)
    reason = last_reason(g)
    assert (reason.source, reason.old, reason.new) == ("argument n", "2", "3")
    h = ct.prepare(lambda p: p["a"] * 2.0, {"a": 1.0})
    h({"a": 1.0, "b": 2.0})
    assert last_reason(h).source == "argument p"


def test_calls_without_preparation_are_counted():
    g = ct.prepare(lambda a: np.sum(np.linalg.cholesky(a)), np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        g(-np.eye(2))
    assert g.explain().unprepared == {"an error that depends on values": 1}
    h = ct.prepare(lambda x: x * x, 1.0, transform="value")
    ct.gradient(h, 2.0)
    assert list(h.explain().unprepared.values()) == [1]


def test_a_function_that_is_recorded_again_and_again_warns_once():
    g = ct.prepare(lambda x, n: x * n, 1.0, ct.const(0), transform="value")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 9):
            g(1.0, n)
        assert caught == []
        for n in range(9, 30):
            g(1.0, n)
    (warning,) = caught
    assert warning.category is ct.RerecordingWarning
    assert "argument n: 9 (was 8)" in str(warning.message)
    assert warning.filename == __file__


def test_replays_in_between_do_not_warn():
    g = ct.prepare(lambda x, n: x * n, 1.0, ct.const(0), transform="value")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 25):
            g(1.0, n)
            g(1.0, n)


def test_views_of_computed_indices_are_replayed():
    table = np.linspace(0.0, 1.0, 50) ** 2
    for take in (lambda i: table[i[::2]], lambda i: ct.array(table)[i[::-1]][:5]):
        g = ct.prepare(lambda x, take=take: np.sum(take((x * 10).astype(int)) * x[:5]), np.ones(10))
        x = np.arange(10) * 0.1 + 0.05
        for _ in range(5):
            g(x)
        assert g.explain().num_recordings <= 2


def test_an_array_with_a_computed_index_needs_no_guard():
    def f(x, t):
        return np.sum(t[np.argsort(x)] * np.arange(4.0) + x)

    rng = np.random.default_rng(0)
    t = rng.standard_normal(4)
    g = ct.prepare(f, t, t)
    for _ in range(5):
        x = rng.standard_normal(4)
        for got, wanted in zip(g(x, t), ct.gradient(f, x, t), strict=True):
            np.testing.assert_array_equal(got, wanted)
    assert g.num_recordings == 1


def test_an_index_that_is_out_of_bounds_raises_as_unprepared():
    g = ct.prepare(lambda x, t: t[(x * 2).astype(int)].sum(), np.ones(2), np.ones(3))
    with pytest.raises(IndexError):
        g(5 * np.ones(2), np.ones(3))


@pytest.mark.parametrize(
    "made", [ct.grad, ct.value_and_grad, lambda f: ct.vmap(ct.grad(lambda v: v**3)), ct.jacrev]
)
def test_transformed_functions_are_prepared(made):
    f = made(lambda x: np.sum(np.sin(x) * x))
    g = ct.prepare(f, np.ones(3), transform="value")
    for x in (np.ones(3), np.array([0.3, -1.0, 2.0])):
        got, wanted = (np.hstack(y) if isinstance(y, tuple) else y for y in (g(x), f(x)))
        np.testing.assert_allclose(got, wanted, rtol=1e-13)
    assert g.num_recordings == 1


def test_a_transformed_function_that_is_differentiated_has_a_remedy():
    with pytest.raises(ValueError, match="real scalar") as caught:
        ct.prepare(ct.grad(lambda x: np.sum(x**2)), np.ones(2))
    assert 'transform="value"' in caught.value.__notes__[-1]
