"""Laziness never shows: any order of reads and writes gives what eager NumPy gives.

Each little program runs three times: in NumPy on plain arrays, which says what the value is; in
NumPy on complex arrays, one per input, whose imaginary part is the derivative (a complex step
h = 1e-100 has no truncation error); and under `value_and_gradient`.
"""

import threading

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cotan as ct

N = 3
SIZES = [3, 300_000]
X = np.array([0.3, -0.7, 1.1])

# --------------------------------------------------------------------------------------------------
# Random programs
#
# x is the input. p, q and r are made of it, and are rebound, written in place and viewed. a, b and
# m are plain buffers; u, v and w are views of them. i holds indices, k is a mask.

TRACED = ["p", "q", "r"]
PLAIN = ["a", "b", "u", "v", "w", "m[0]", "m[:, 1]", "m.T[2]", "a[::-1]", "a[i]", "m.diagonal()"]
NUMBERS = ["0.5", "-1.0", "2.0", "a[0]", "m[1, 2]", "b.sum()"]

traced, plain, number = map(st.sampled_from, (TRACED, PLAIN, NUMBERS))
part = st.sampled_from(["[:]", "[1:]", "[::-1]", "[::2]", "[0]", "[i]", "[k]", "[-1:]"])
same_part = st.sampled_from(["[:]", "[::-1]", "[i]"])


def lines(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda values: template.format(*values))


reads = st.one_of(
    lines("{} = {} * {}", traced, traced, plain),
    lines("{} = {} + {}", traced, plain, traced),
    lines("{} = np.sin({}) * {}", traced, traced, traced),
    lines("{} = {} - {}", traced, traced, number),
    lines("{} = np.where(k, {}, {})", traced, traced, plain),
    lines("{} = {}[i]", traced, traced),
    lines("{} = 0.25 * (m @ {})", traced, traced),
    lines("{} = 0.25 * ({} @ m.T)", traced, traced),
    lines("total = total + np.sum({}[k])", traced),
    lines("total = total + np.sum({} * {})", traced, plain),
    lines("total = total + {} @ {}", plain, traced),
    lines(
        "total = total + np.sum(np.multiply({}, {}, where=k, out=np.zeros_like({})))", *[traced] * 3
    ),
)
aliases = st.one_of(
    lines("{} = {}", traced, traced),
    lines("{} = {}{}", traced, traced, same_part),
    lines("{} = {} * 1.0", traced, traced),
)
writes_to_traced = st.one_of(
    lines("{} += {}", traced, plain),
    lines("{} -= x", traced),
    lines("{} *= np.cos({})", traced, traced),
    lines("{}{} = {}", traced, part, number),
    lines("{}{} = {}", traced, same_part, traced),
    lines("{}{} = {}", traced, same_part, plain),
    lines("{}{} *= {}", traced, part, number),
    lines("np.multiply({}, {}, out={})", plain, traced, traced),
    lines("np.add({}, {}, out={}[::-1])", traced, plain, traced),
)
writes_to_plain = st.one_of(
    lines("{}[:] = {}", st.sampled_from(["a", "b", "u", "v", "w", "m", "m.T", "m[1:]"]), number),
    lines("{}[:] = {}", st.sampled_from(["a", "b", "v", "w", "m", "m.T[1:]"]), plain),
    lines("{}[1] = {}", st.sampled_from(["a", "b", "u", "v", "w"]), number),
    lines("{} -= {}", st.sampled_from(["a", "b", "v", "w"]), number),
    lines("{} *= -0.5", st.sampled_from(["a", "b", "m", "m[:, 1:]"])),
    lines("np.minimum({}, {}, out={})", plain, plain, st.sampled_from(["a", "b", "u", "w"])),
    st.sampled_from(
        [
            "a.fill(0.25)",
            "np.copyto(b, a)",
            "np.copyto(v, u, where=k)",
            "m.sort(axis=0)",
            "m.flat[4] = -2.0",
            "memoryview(a)[0] = 0.75",
            "np.add.at(b, i, 0.5)",
        ]
    ),
    st.sampled_from(
        [
            "i[:] = i[::-1]",
            "i[0] = 1",
            "i += 1; i %= 3",
            "i.fill(2)",
            "k[0] = not k[0]",
            "np.logical_not(k, out=k)",
            "k[:] = i > 0",
        ]
    ),
)
statements = st.one_of(reads, reads, aliases, writes_to_traced, writes_to_plain, writes_to_plain)
programs = st.lists(statements, min_size=2, max_size=14)


def run(program, x, lifting=False):
    """Run the lines on fresh buffers and return a number that depends on all that was made.

    The buffers are plain ndarrays, or what stands for them while a gradient is recorded.
    """
    if lifting:
        program = [line.replace("memoryview(a)[0]", "a[0]") for line in program]
    with ct.lifting(lifting):
        return run_here(program, x)


def run_here(program, x):
    m = np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5], [-0.25, 1.0, 2.0]])
    a, b = np.array([1.0, -0.5, 0.75]), np.array([0.25, 1.25, -1.0])
    env = {
        "np": np,
        "x": x,
        "p": x * 1.0,
        "q": x + 0.5,
        "r": x[::-1] * 2.0,
        "a": a,
        "b": b,
        "m": m,
        "u": a[::-1],
        "v": m[1],
        "w": m.T[0],
        "i": np.array([2, 0, 1]),
        "k": np.array([True, False, True]),
        "total": 0.0,
    }
    exec(compile("\n".join(program), "<program>", "exec"), env)
    weights = np.array([1.0, 10.0, 100.0])
    result = env["total"]
    for name in TRACED:
        result = result + np.sum(env[name] * weights)
        weights /= 7.0  # a buffer that is filled again, here too
    return result


def by_complex_step(f, x):
    steps = 1e-100j * np.eye(len(x))
    return np.array([np.imag(f(x + step)) * 1e100 for step in steps])


def check(f, x):
    """Compare value and gradient of `f` at `x` with eager NumPy."""
    with np.errstate(all="ignore"):
        expected, slope = f(x.copy()), by_complex_step(f, x)
    value, (gradient,) = ct.value_and_gradient(f, x)
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
    if gradient is None:
        gradient = np.zeros_like(x)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-8 * (1 + np.abs(slope).max()))


@given(programs)
@example(["p = p * a", "a[:] = 2.0", "p = p * a"])
@example(
    ["p = np.where(k, p, b)", "np.logical_not(k, out=k)", "b[1] = 2.0", "q = np.where(k, q, b)"]
)
@example(["p = q[i]", "i[0] = 1", "q = q[i]", "i.fill(2)", "r[i] = 0.5"])
@example(["q = p", "r = p[::-1]", "p += a", "a.fill(0.25)", "r[0] = 2.0", "q *= np.cos(r)"])
@example(["total = total + np.sum(p * u)", "a[0] = m[1, 2]", "total = total + v @ p", "m[:] = 0.5"])
def test_random_programs(program):
    check(lambda x: run(program, x), X)


@given(programs)
def test_random_programs_on_arrays_made_while_recording(program):
    check(lambda x: run(program, x, lifting=True), X)


@given(st.lists(statements, min_size=2, max_size=5), st.lists(statements, max_size=5))
def test_loops_over_random_bodies(body, tail):
    def f(x):
        return run(body * 3 + tail, x)

    check(f, X)


@given(st.lists(statements, min_size=2, max_size=7))
def test_nested_gradients_of_random_programs(program):
    """The inner gradient reads the buffers while the outer one records."""

    def f(x):
        scale = np.ones(N)

        def inner(y):
            return run(program, y * scale)

        value, (gradient,) = ct.value_and_gradient(inner, x)
        scale[:] = 0.0
        return value if gradient is None else value + np.sum(gradient * X)

    def eager(x):
        return run(program, x)

    slope = by_complex_step(eager, X)
    value, (gradient,) = ct.value_and_gradient(f, X)
    np.testing.assert_allclose(
        value, eager(X) + slope @ X, rtol=1e-8, atol=1e-7 * (1 + np.abs(slope).max())
    )
    # the outer gradient is g + H X: central differences of the eager slope give H X
    h = 1e-6
    along = (by_complex_step(eager, X * (1 + h)) - by_complex_step(eager, X * (1 - h))) / (2 * h)
    expected = slope + along
    if gradient is None:
        gradient = np.zeros(N)
    np.testing.assert_allclose(
        gradient, expected, rtol=1e-4, atol=1e-4 * (1 + np.abs(expected).max())
    )


# --------------------------------------------------------------------------------------------------
# In-place writes on traced arrays


@pytest.mark.parametrize("n", SIZES)
def test_in_place_operators_reach_aliases_and_views(n):
    def f(x):
        y = x * 1.0
        alias, head, back = y, y[:2], y[::-1]
        saved = np.sin(y)  # made before the write: keeps the old value
        y += x
        y *= 3.0
        back[0] = 0.0  # the last one
        return np.sum(alias) + 10 * np.sum(head) + np.sum(saved) + np.sum(y * back)

    x = np.linspace(0.1, 0.9, n)

    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-11)
    y = 6 * x
    y[-1] = 0.0
    expected = 6.0 + np.cos(x) + 6 * 2 * y[::-1]
    expected[:2] += 60.0
    expected[-1] = np.cos(x[-1])
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_views_of_traced_arrays_both_ways(n):
    def f(x):
        y = x * 1.0
        view = y[1:]
        y[1] = 5.0
        first = np.sum(view)
        view[:] = view * 2.0
        return first + np.sum(y)

    value, (gradient,) = ct.value_and_gradient(f, np.ones(n))
    assert value == (5.0 + n - 2) + (1.0 + 10.0 + 2.0 * (n - 2))
    expected = np.full(n, 3.0)
    expected[:2] = [1.0, 0.0]
    np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("n", SIZES)
def test_overlapping_writes(n):
    def f(x):
        y = x * 1.0
        y[1:] = y[:-1]
        y[:-1] += y[1:]
        y += y[::-1]
        return np.sum(y * np.arange(n))

    x = np.linspace(0.5, 1.5, n)
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-11)
    # f is linear, so its gradient gives f back
    assert gradient @ x == pytest.approx(f(x), rel=1e-11)
    probe = np.zeros(n)
    for at in (0, 1, n - 2, n - 1):
        probe[:] = 0.0
        probe[at] = 1.0
        assert gradient[at] == pytest.approx(f(probe), rel=1e-11, abs=1e-9)


@pytest.mark.parametrize("n", SIZES)
def test_out_and_where(n):
    mask = np.arange(n) % 2 == 0

    def f(x):
        y = x * 1.0
        buf = np.full(n, 3.0)
        result = np.multiply(y, buf, out=y)
        assert result is y
        np.add(y, 100.0, out=y, where=mask)
        buf[:] = np.nan
        np.sin(y[:2], out=y[-2:])
        return np.sum(y)

    x = np.linspace(0.1, 0.2, n)
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-11)
    y = 3 * x + 100.0 * mask
    expected = np.full(n, 3.0)
    expected[-2:] = 0.0
    expected[:2] += 3.0 * np.cos(y[:2])
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_a_traced_value_in_a_plain_out_is_never_lost():
    """Either it stays traced, or it is refused by name; what it never does is vanish."""

    def f(x):
        plain = np.ones(3)
        try:
            y = np.multiply(x, 2.0, out=plain)
        except TypeError as error:
            assert "dropgrad" in str(error)
            return np.sum(2.0 * x)
        return np.sum(y) * 0.5 + np.sum(plain) * 0.5

    np.testing.assert_array_equal(ct.gradient(f, X)[0], [2.0, 2.0, 2.0])


def test_writes_to_the_argument_do_not_reach_the_caller():
    x = X.copy()

    def f(x):
        y = np.sum(x * x)
        x += 1.0
        x[0] = 7.0
        return y + np.sum(x * x)

    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(np.sum(X * X) + 49.0 + np.sum((X[1:] + 1) ** 2), rel=1e-14)
    np.testing.assert_allclose(gradient, 2 * X + [0.0, *(2 * (X[1:] + 1))], rtol=1e-14)
    np.testing.assert_array_equal(x, X)


# --------------------------------------------------------------------------------------------------
# Arguments, constants and results of the calls themselves


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("wrap", [lambda c: c, ct.const], ids=["active", "const"])
def test_the_memory_of_an_argument_is_written_by_f(n, wrap):
    x, c = np.ones(n), np.full(n, 2.0)

    def f(x_, c_):
        y = np.sum(x_ * c_)
        x[:], c[:] = np.nan, np.nan
        return y

    if x.nbytes >= 2**18:
        # Large arguments are borrowed, not copied: writing to one of them is an error, not a wrong
        # number.
        with pytest.raises(RuntimeError, match=r"\(300000,\).*written"):
            ct.value_and_gradient(f, x, wrap(c))
        return
    value, (dx, dc) = ct.value_and_gradient(f, x, wrap(c))
    assert value == 2.0 * n
    np.testing.assert_array_equal(dx, np.full(n, 2.0))
    if dc is not None:
        np.testing.assert_array_equal(dc, np.ones(n))


@pytest.mark.parametrize("n", SIZES)
def test_writes_between_recording_and_pulling_back(n):
    x, c, k = np.full(n, 2.0), np.full(n, 3.0), np.full(n, 5.0)
    _, back = ct.pullback(lambda x, c: np.sum(x * c * k), x, ct.const(c))
    for buffer in (x, c, k):
        buffer[:] = np.nan
    np.testing.assert_array_equal(np.asarray(back(1.0)[0]), np.full(n, 15.0))


@pytest.mark.parametrize("n", SIZES)
def test_writes_to_the_cotangent_before_it_is_read(n):
    _, back = ct.pullback(lambda x: np.sin(x) * 2.0, np.zeros(n))
    dy = np.ones(n)
    (dx,) = back(dy)
    dy[:] = np.nan
    np.testing.assert_array_equal(np.asarray(dx), np.full(n, 2.0))


@pytest.mark.parametrize("n", SIZES)
def test_results_share_memory_with_nobody(n):
    x, z, c = np.ones(n), np.ones(n), np.full(n, 3.0)
    dx, dz = ct.gradient(lambda x, z: np.sum((x + z) * c), x, z)
    dx[:] = -1.0  # what is returned is the caller's own
    np.testing.assert_array_equal(dz, np.full(n, 3.0))
    np.testing.assert_array_equal(c, np.full(n, 3.0))

    y, back = ct.pullback(lambda x: x, x)
    dy = np.full(n, 2.0)
    (thunk,) = back(dy)
    np.asarray(thunk)
    dy[:] = 9.0
    np.testing.assert_array_equal(np.asarray(thunk), np.full(n, 2.0))
    if isinstance(y, np.ndarray) and y.flags.writeable:
        y[:] = 4.0
    np.testing.assert_array_equal(x, np.ones(n))


@pytest.mark.parametrize("n", SIZES)
def test_what_a_pullback_keeps_is_out_of_reach(n):
    x = np.linspace(0.0, 1.0, n)
    y, back = ct.pullback(np.exp, x)  # keeps y
    expected = np.exp(x)
    first = np.asarray(back(np.ones(n))[0])
    for handed_out in (np.asarray(y), first):
        if handed_out.flags.writeable:
            handed_out[:] = np.nan
    np.testing.assert_allclose(np.asarray(back(np.ones(n))[0]), expected, rtol=1e-15)


@pytest.mark.parametrize("n", SIZES)
def test_arrays_outside_a_gradient(n):
    buf = np.linspace(0.0, 1.0, n)
    first = buf.copy()
    held = ct.array(buf)
    lazy = ct.sin(ct.array(buf)) * buf
    view = held[::-1]
    buf[:] = np.nan
    np.testing.assert_array_equal(np.asarray(held), first)
    np.testing.assert_array_equal(np.asarray(view), first[::-1])
    np.testing.assert_allclose(np.asarray(lazy), np.sin(first) * first, rtol=1e-15, atol=1e-300)
    held += 1.0
    np.testing.assert_array_equal(np.asarray(view), first[::-1] + 1.0)


def test_array_from_array_is_a_copy():
    a = ct.array([1.0, 2.0])
    b = ct.array(a)
    a += 10.0
    np.testing.assert_array_equal(np.asarray(b), [1.0, 2.0])


def test_forcing_in_between_changes_nothing(capsys):
    buf = np.ones(3)

    def f(x, look):
        y = x * buf
        if look:
            print(y)
            assert bool(np.sum(y) != 12345.0)
        buf[:] = 2.0
        z = y * buf
        if look:
            repr(z)
        y += 1.0
        buf[:] = 1.0
        return np.sum(z) + np.sum(y * y)

    plain = ct.value_and_gradient(lambda x: f(x, look=False), X)
    looked = ct.value_and_gradient(lambda x: f(x, look=True), X)
    assert plain[0] == looked[0] == pytest.approx(f(X, look=False), rel=1e-14)
    np.testing.assert_array_equal(plain[1][0], looked[1][0])
    np.testing.assert_allclose(plain[1][0], 2.0 + 2 * (X + 1.0), rtol=1e-14)
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "extremum",
    [
        lambda s: np.maximum(s, 1e-10),
        lambda s: np.minimum(s, 1e10),
        lambda s: np.fmax(s, 1e-10),
        lambda s: np.fmin(s, s.mean()),
        lambda s: np.max(s, axis=1),
        lambda s: np.min(s, axis=1),
        lambda s: np.linalg.norm(s, np.inf, axis=1),
    ],
)
@pytest.mark.parametrize("shape", [(3, 2, 2), (5, 3, 7), (6, 5, 4)])
def test_extrema_of_sums_that_are_forced(rng, shape, extremum):
    """What is computed again has other last digits than what was computed before."""
    rows, columns, n = shape
    a, b = rng.uniform(0.3, 1.3, (rows, n)), rng.uniform(0.1, 1.1, (columns, n))

    def f(x):
        product = np.sum(b[None] * (a * x + a**2)[:, None], axis=2)
        first = np.maximum(product, 1e-10)
        sums = np.sum(first[:, :, None] * a[:, None], axis=0)
        second = extremum(sums)
        del product, sums
        assert bool(np.sum(second) > 0)
        return np.sum(second**2)

    step = 1e-6
    wanted = (f(0.8 + step) - f(0.8 - step)) / (2 * step)
    assert ct.gradient(f, 0.8)[0] == pytest.approx(wanted, rel=1e-6)


def test_another_thread_writes_after_the_read():
    n = 300_000
    buf = np.ones(n)
    read, written = threading.Event(), threading.Event()

    def writer():
        read.wait(30)
        buf[:] = np.nan
        written.set()

    def f(x):
        y = np.sum(x * buf)
        read.set()
        assert written.wait(30)
        return y

    thread = threading.Thread(target=writer)
    thread.start()
    (gradient,) = ct.gradient(f, np.ones(n))
    thread.join()
    np.testing.assert_array_equal(gradient, np.ones(n))


def test_copied_bytes_are_counted():
    n = 1000
    buf = np.ones(n)
    with ct.profile() as work:
        ct.gradient(lambda x: np.sum(x * buf), np.ones(n))
    assert work.bytes_copied >= buf.nbytes  # somebody else could write to it
    frozen = np.ones(n)
    frozen.flags.writeable = False
    with ct.profile() as work:
        ct.gradient(lambda x: np.sum(x * frozen), np.ones(n))
    assert work.bytes_copied == 0


# --------------------------------------------------------------------------------------------------
# What has no influence stays without, whatever is infinite on the way


def test_masks_that_are_crossed_twice():
    def f(x):
        q = np.maximum(-x - 0.1 * np.maximum(-x, 0), 0)
        return x * np.sqrt(q)

    slope = ct.grad(f)
    assert slope(1.0) == 0.0 and ct.grad(slope)(1.0) == 0.0
    # Behind the kink: -(0.9 * -x) ** 0.5 * -x.
    assert slope(-2.0) == pytest.approx(1.5 * np.sqrt(0.9 * 2.0))
    assert ct.grad(slope)(-2.0) == pytest.approx(-0.75 * np.sqrt(0.9 / 2.0))


def test_two_masks_meet():
    x = np.array([-1.0, 0.0, 1.0, 2.0, 3.0])

    def f(x):
        root = np.sqrt(np.where(x > 0, x, 0.0))
        return np.sum(np.where(x > 1, root, 0.0) + np.where(x < 2.5, root * root, 0.0))

    (g,) = ct.gradient(f, x)
    np.testing.assert_allclose(g, [0.0, 0.0, 1.0, 1.0 + 0.5 / np.sqrt(2.0), 0.5 / np.sqrt(3.0)])
    slopes = ct.gradient(lambda x: np.sum(ct.gradient(f, x)[0] * (1.0 + x)), x)[0]
    assert np.all(np.isfinite(slopes))


def test_distances_whose_diagonal_is_overwritten():
    p = np.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 0.5]])

    def energy(p, fill):
        d = p[:, None] - p[None]
        r = np.sqrt(np.sum(d**2, axis=-1))
        if fill == "fill":
            np.fill_diagonal(r, np.inf)
            return np.sum(1.0 / r)
        r[r > 0] = 1.0 / r[r > 0]
        return np.sum(np.triu(r, 1)) * 2

    step = 1e-6
    for fill in ("fill", "mask"):
        (g,) = ct.gradient(lambda p: energy(p, fill), p)
        moved = np.zeros_like(p)
        moved[1, 0] = step
        quotient = (energy(p + moved, fill) - energy(p - moved, fill)) / (2 * step)
        assert np.all(np.isfinite(g)) and g[1, 0] == pytest.approx(quotient, rel=1e-6)
    # Where the result counts, the root stays infinitely steep.
    assert ct.gradient(np.sqrt, 0.0) == (np.inf,)


def test_roots_whose_result_has_no_influence_have_curvature():
    # The cotangent of the root is 0 where the residual is, and has a derivative there.
    def misfit(x):
        return np.sum((np.sqrt(x) - np.array([2.0, 2.0])) ** 2 + (x**0.5 - 2.0) ** 2)

    curved = ct.hessian(misfit, np.array([4.0, 9.0]))
    np.testing.assert_allclose(curved, np.diag([0.25, 4 / 54]), atol=1e-15)
    slope = ct.grad(lambda y: ct.grad(lambda x: y * np.sqrt(x))(4.0))
    assert slope(0.0) == pytest.approx(0.25)
