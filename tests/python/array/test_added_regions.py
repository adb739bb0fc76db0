"""What is added to a region of an array costs a sum forward, and a slice in reverse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct

X = np.linspace(0.4, 1.9, 12).reshape(4, 3)


def in_place(x):
    y = x * x
    y[1:] += np.sin(x[:-1])
    return y


def through_a_name(x):
    y = x * x
    part = y[1:]
    part += np.sin(x[:-1])
    return y


def written_out(x):
    y = x * x
    y[1:] = y[1:] + np.sin(x[:-1])
    return y


def term_first(x):
    y = x * x
    y[1:] = np.sin(x[:-1]) + y[1:]
    return y


def subtracted(x):
    y = x * x
    y[1:] -= -np.sin(x[:-1])
    return y


def through_two_views(x):
    y = x * x
    y[1:][:, ::-1] += np.sin(x[:-1])[:, ::-1]
    return y


def by_column(x):
    y = x * x
    for k in range(3):
        y[1:, k] += np.sin(x[:-1, k])
    return y


@pytest.mark.parametrize(
    "f",
    [in_place, through_a_name, written_out, term_first, subtracted, through_two_views, by_column],
)
def test_a_sum_stays_a_sum(f):
    expected = X * X
    expected[1:] += np.sin(X[:-1])
    np.testing.assert_array_equal(f(X), expected)
    value, pullback = ct.pullback(f, X)
    np.testing.assert_array_equal(value, expected)
    assert "where" not in str(pullback)
    assert " update[" not in str(pullback)
    ct.check_grads(lambda x: np.sum(f(x) ** 2), (X,), order=1)


def multiplied(x):
    y = np.sin(x)
    y[1:] *= x[:-1]
    return np.sin(y)


def replaced_by_what_it_was(x):
    y = np.sin(x)
    y[1:3] = np.exp(y[1:3])
    y[0] /= x[1]
    return y * x


@pytest.mark.parametrize("f", [multiplied, replaced_by_what_it_was])
def test_nothing_is_left_out_by_an_operator_in_place(f):
    """Zero times an infinite slope needs no mask where nothing is zero."""
    assert "where" not in str(ct.pullback(f, X)[1])
    ct.check_grads(lambda x: np.sum(f(x) ** 2), (X,), order=1)


def test_what_is_replaced_still_has_no_influence():
    def f(x):
        y = np.log(x)
        y[1:] *= x[:-1]
        y[0] = x[1]
        return np.sum(y)

    x = np.array([0.0, 2.0, 3.0])
    np.testing.assert_allclose(ct.gradient(f, x)[0], [np.log(2.0), 1 + np.log(3.0), 2 / 3])


def test_what_is_written_back_is_there_already():
    def f(x):
        y = x * 2
        part = y[1:3]
        part *= 3
        y[1:3] = part
        return y

    def once(x):
        y = x * 2
        part = y[1:3]
        part *= 3
        return y

    programs = [str(ct.pullback(g, X)[1]) for g in (f, once)]
    assert programs[0] == programs[1]


def read_before_a_write(x):
    y = x * x
    later = y[1:] + np.sin(x[:-1])
    y[2] = 5 * x[2]
    y[1:] = later
    return y


def other_rows(x):
    y = x * x
    y[1:] = y[:-1] + x[1:]
    return y


def into_another_array(x):
    y, z = x * x, x * 3
    z[1:] = y[1:] + x[1:]
    return z


def a_view_of_something_else(x):
    y, z = x * x, x * 3
    part = z[1:]
    part += x[1:]
    y[1:] = part
    return y


def onto_itself(x):
    y = x * x
    y[1:] += y[:-1]
    y[::2] += y[::2]
    return y


def wider_than_the_term(x):
    y = x * x
    y[1:] += x[0]
    y[:, 1:] -= x[:, :1]
    y[2:, 0] += 2.5
    return y


def a_part_of_other_shape(x):
    y = x * x
    part = y[1:3]
    part += x[1:3]
    flat = part.reshape(-1)
    flat += x[:2].reshape(-1)
    y[1:3] = part
    return y


def twice_in_a_name(x):
    y = x * x
    part = y[1:3]
    part += x[1:3]
    y[1] *= x[0]
    part += x[:2]
    y[1:3] = part
    return y


@pytest.mark.parametrize(
    "f",
    [
        read_before_a_write,
        other_rows,
        into_another_array,
        a_view_of_something_else,
        onto_itself,
        wider_than_the_term,
        a_part_of_other_shape,
        twice_in_a_name,
    ],
)
def test_reads_and_writes_keep_their_order(f):
    expected = f(X)
    np.testing.assert_array_equal(ct.pullback(f, X)[0], expected)
    ct.check_grads(lambda x: np.sum(f(x) ** 2), (X,), order=1)


def test_a_read_only_array_is_refused_though_nothing_would_change():
    def f(x):
        y = np.broadcast_to(x, (2, *x.shape))
        y[:1] = y[:1]
        return np.sum(y)

    with pytest.raises(ValueError, match="read-only"):
        ct.gradient(f, X)


STATEMENTS = [
    "y[{a}] += x[{b}]",
    "y[{a}] -= np.sin(x[{b}])",
    "y[{a}] = y[{a}] + x[{b}]",
    "y[{a}] = x[{b}] - y[{a}]",
    "y[{a}] *= x[{b}]",
    "y[{a}] += y[{b}]",
    "part = y[{a}]; part += x[{b}]; y[{a}] = part",
    "part = y[{a}]; y[{c}] = x[{c}]; part -= x[{b}]; y[{a}] = part",
    "y[{c}] = 1.5",
]


@st.composite
def regions(draw):
    """Give two regions of one length, and one more index."""
    length = draw(st.integers(1, 3))
    texts = []
    for _ in range(2):
        start = draw(st.integers(0, 4 - length))
        if draw(st.booleans()):
            texts.append(f"{start}:{start + length}")
        else:
            stop = start - 1
            texts.append(f"{start + length - 1}:{stop if stop >= 0 else ''}:-1")
    return {"a": texts[0], "b": texts[1], "c": draw(st.integers(0, 3))}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), regions()), min_size=1, max_size=6))
def test_programs_of_writes_are_those_of_numpy(statements):
    lines = [text.format(**where) for text, where in statements]
    source = (
        "def f(x):\n    y = x * x\n" + "".join(f"    {line}\n" for line in lines) + "    return y\n"
    )
    names = {"np": np}
    exec(source, names)
    f = names["f"]
    expected = f(X)
    value, pullback = ct.pullback(f, X)
    np.testing.assert_allclose(value, expected, rtol=1e-14, err_msg=source)
    weights = np.cos(np.arange(12.0)).reshape(4, 3)
    (found,) = pullback(weights)
    step = 1e-20

    def along(k):
        direction = np.zeros(12, complex)
        direction[k] = 1j * step
        return np.sum(weights * f(X + direction.reshape(4, 3))).imag / step

    np.testing.assert_allclose(
        found, [[along(3 * i + j) for j in range(3)] for i in range(4)], rtol=1e-9, atol=1e-12
    )
