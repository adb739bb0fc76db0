"""Fourier, cosine and sine transforms: `numpy.fft`, `scipy.fft` and `scipy.fftpack`."""

import multiprocessing
import warnings

import numpy as np
import pytest
import scipy.fft
import scipy.fftpack

import cotan as ct
import cotan._src.scipy.fft  # enters its functions
from cotan import _core
from cotan._src.runtime.registry import rule_of, rules_of

SHAPES = [(1,), (2,), (5,), (8,), (3, 4), (4, 3, 6)]
TYPES = ["f8", "f4", "c16", "c8"]
NORMS = [None, "backward", "ortho", "forward"]
ALONG_ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
ALONG_TWO = ["fft2", "ifft2", "rfft2", "irfft2"]
ALONG_ALL = ["fftn", "ifftn", "rfftn", "irfftn"]
COSINES = ["dct", "idct", "dst", "idst"]


def array(shape, dtype="f8", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if dtype[0] == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def assert_like(function, ours, x, *args, **kwargs):
    """The same value, shape and dtype, or both raise."""
    try:
        expected = function(x, *args, **kwargs)
    except (ValueError, TypeError, IndexError, RuntimeError):
        with pytest.raises((ValueError, TypeError, IndexError)):
            ours(ct.array(x), *args, **kwargs)
        return
    actual = ours(ct.array(x), *args, **kwargs)
    assert isinstance(actual, ct.Array)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    tol = 2e-5 if expected.dtype.char in "fF" else 1e-12
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=tol, atol=tol * max(x.size, 1))


def differences(f, x, step=1e-6):
    """The gradient of a real function by central differences; of complex numbers `da + i db`."""
    out = np.zeros(x.shape, x.dtype)
    for i in np.ndindex(x.shape):
        for direction in (1.0, 1j) if x.dtype.kind == "c" else (1.0,):
            e = np.zeros(x.shape, x.dtype)
            e[i] = step * direction
            out[i] += direction * (f(x + e) - f(x - e)) / (2 * step)
    return out


def assert_gradient(function, x, tol=1e-6):
    """First and second order against central differences."""
    w = array(np.shape(plain(function(ct.array(x)))), "c16", 1)

    def loss(x):
        y = function(x)
        return ct.sum(ct.sin(y.real) * w.real) + ct.sum(ct.square(y.imag) * w.imag)

    def value(x):
        return float(np.asarray(loss(ct.array(x))))

    (g,) = ct.gradient(loss, x)
    assert (g.dtype, g.shape) == (x.dtype, x.shape)
    np.testing.assert_allclose(g, differences(value, x), rtol=tol, atol=tol)
    v = array(x.shape, x.dtype.str[1:], 2)

    def directional(x):
        (g,) = ct.gradient(loss, x)
        return ct.sum(ct.mul(g, v)).real

    (h,) = ct.gradient(directional, x)
    expected = differences(lambda x: float(np.asarray(directional(ct.array(x)))), x)
    np.testing.assert_allclose(h, expected, rtol=100 * tol, atol=100 * tol)


def plain(x):
    return np.asarray(x)


# --------------------------------------------------------------------------------------------------
# numpy.fft


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ALONG_ONE)
def test_along_one_axis(name, dtype):
    function = getattr(np.fft, name)
    for shape in SHAPES:
        x = array(shape, dtype)
        for axis in range(-1, len(shape) - 1):
            for n in (None, 3, 4, 7):
                for norm in NORMS:
                    assert_like(function, function, x, n, axis, norm)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ALONG_TWO + ALONG_ALL)
def test_along_several_axes(name, dtype):
    function = getattr(np.fft, name)
    for shape in SHAPES[3:]:
        x = array(shape, dtype)
        for norm in NORMS:
            assert_like(function, function, x, norm=norm)
        if len(shape) > 1:
            assert_like(function, function, x, (3, 6), (0, 1))
            assert_like(function, function, x, (-1, 5), (1, 0))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # lengths without axes
                if name in ALONG_ALL:
                    assert_like(function, function, x, (6,))
            assert_like(function, function, x, axes=(1,))
            assert_like(function, function, x, axes=(1, 1))


def test_integers_halves_and_views():
    for dtype in ("?", "u1", "i4", "i8", "f2"):
        x = (np.arange(12).reshape(3, 4) % 3).astype(dtype)
        assert_like(np.fft.fft, np.fft.fft, x)
        assert_like(np.fft.rfft, np.fft.rfft, x, axis=0)
    x = array((5, 6), "c16")
    for view in (lambda x: x.T, lambda x: x[::-1, ::2], lambda x: x[1:, ::-1].T):
        for axis in (0, 1):
            expected = np.fft.fft(view(x), axis=axis)
            np.testing.assert_allclose(np.fft.fft(view(ct.array(x)), axis=axis), expected)
    # Foreign memory at an odd address.
    odd = np.zeros(8 * 16 + 1, np.uint8)[1:].view("c16")
    odd[:] = array(8, "c16")
    np.testing.assert_allclose(np.fft.fft(ct.asarray(odd)), np.fft.fft(odd))


def test_out_is_written_to():
    x = ct.array(array(6))
    out = ct.array(np.zeros(6, complex))
    result = np.fft.fft(x, out=out)
    assert result is out
    np.testing.assert_allclose(out, np.fft.fft(np.asarray(x)))
    with pytest.raises(ValueError, match="shape"):
        np.fft.fft(x, out=ct.array(np.zeros(5, complex)))
    with pytest.raises(TypeError, match="cast"):
        np.fft.fft(x, out=ct.array(np.zeros(6)))


def test_errors_are_those_of_numpy():
    x = ct.array(array((3, 4)))
    with pytest.raises(ValueError, match=r"Invalid number of FFT data points \(0\)"):
        np.fft.fft(x, 0)
    with pytest.raises(ValueError, match="norm value up"):
        np.fft.fft(x, norm="up")
    with pytest.raises(np.exceptions.AxisError):
        np.fft.fft(x, axis=2)
    with pytest.raises(ValueError, match="different lengths"):
        np.fft.fftn(x, (3,), (0, 1))
    with pytest.raises(TypeError, match="rfft: takes real numbers, not complex128"):
        np.fft.rfft(x * 1j)
    with pytest.raises(ValueError, match="nothing to transform along axis 1 of shape \\(3, 0\\)"):
        _core.fourier(np.zeros((3, 0)), [1])
    assert np.fft.fft(ct.array(np.zeros((0, 4)))).shape == (0, 4)


@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("n", [None, 3, 8])
def test_gradients_along_one_axis(name, n):
    function = getattr(np.fft, name)
    kinds = ["f8"] if name in {"rfft", "ihfft"} else ["f8", "c16"]
    for dtype in kinds:
        for norm in ("backward", "ortho"):
            assert_gradient(lambda x, norm=norm: function(x, n, norm=norm), array((2, 5), dtype))
            assert_gradient(lambda x: function(x, n, axis=0), array((4, 2), dtype))


@pytest.mark.parametrize("name", ALONG_TWO + ALONG_ALL)
def test_gradients_along_several_axes(name):
    function = getattr(np.fft, name)
    kinds = ["f8"] if name in {"rfft2", "rfftn"} else ["f8", "c16"]
    for dtype in kinds:
        assert_gradient(function, array((3, 4), dtype))
        assert_gradient(lambda x: function(x, (2, 5), (0, 1), norm="ortho"), array((3, 4), dtype))


def test_gradient_in_single_precision():
    x = array((4, 6), "f4")

    def power(x):
        return np.sum(np.abs(np.fft.rfft(x)) ** 2)

    (g,) = ct.gradient(power, x)
    assert g.dtype == np.float32
    (expected,) = ct.gradient(power, x.astype("f8"))
    np.testing.assert_allclose(g, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 97, 1009, 30030, 1 << 15])
def test_lengths_of_all_kinds(n):
    x = array((2, n), "c16")
    for norm in (None, "ortho"):
        expected = np.fft.fft(x, norm=norm)
        np.testing.assert_allclose(np.fft.fft(ct.array(x), norm=norm), expected, atol=1e-11 * n)
    expected = np.fft.rfft(x.real)
    np.testing.assert_allclose(np.fft.rfft(ct.array(x.real)), expected, atol=1e-11 * n)
    back = np.fft.irfft(ct.array(expected), n)
    np.testing.assert_allclose(back, x.real, atol=1e-11)


@pytest.mark.parametrize("dtype", ["f4", "c8", "c16"])
@pytest.mark.parametrize("shape", [(9, 1), (9, 31), (37, 45), (6, 5, 3, 7), (5000, 19), (33, 260)])
def test_lines_that_are_apart(shape, dtype):
    """Lines of which some lie side by side, in whole blocks and in what is left of them."""
    x = array(shape, dtype)
    turned = np.moveaxis(x, 0, -1)
    for view in (x, x[:, ::-1], x[:, ::2], np.asfortranarray(x), turned):
        axis = view.ndim - 1 if view is turned else 0
        names = ["fft", "rfft"] if dtype == "f4" else ["fft", "irfft"]
        for name in names:
            transform = getattr(np.fft, name)
            expected = transform(view, axis=axis)
            near = 1e-13 if dtype == "c16" else 1e-4
            near *= 1 + np.abs(expected).max()
            np.testing.assert_allclose(transform(ct.array(view), axis=axis), expected, atol=near)


def test_same_bits_on_any_number_of_threads():
    x, z = array((300, 257)), array((40, 60, 70), "c8")

    def everything():
        a, b = ct.array(x), ct.array(z)
        results = [np.fft.rfft(a), np.fft.rfft(a, axis=0), np.fft.fftn(b), np.fft.fft(b, axis=1)]
        return [np.asarray(r).tobytes() for r in results]

    threads = ct.num_threads()
    try:
        ct.set_num_threads(1)
        one = everything()
        ct.set_num_threads(4)
        assert everything() == one
    finally:
        ct.set_num_threads(threads)


def test_an_argument_is_not_written_to():
    x = array((4, 8), "c16")
    a = ct.array(x)
    y = np.fft.fft(np.fft.fft(a, axis=0), axis=1)
    np.testing.assert_allclose(y, np.fft.fft2(x))
    np.testing.assert_array_equal(np.asarray(a), x)


def _in_child(queue):
    queue.put(np.asarray(np.fft.fft(ct.array(array(37, "c16")))))


def test_plans_survive_a_fork():
    x = array(37, "c16")
    expected = np.asarray(np.fft.fft(ct.array(x)))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_in_child, args=(queue,))
    process.start()
    np.testing.assert_array_equal(queue.get(timeout=60), expected)
    process.join(60)
    ct.clear_caches()
    np.testing.assert_array_equal(np.asarray(np.fft.fft(ct.array(x))), expected)


# --------------------------------------------------------------------------------------------------
# scipy.fft, scipy.fftpack


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ALONG_ONE)
def test_scipy_along_one_axis(name, dtype):
    for shape in SHAPES:
        x = array(shape, dtype)
        for n in (None, 3, 6):
            for norm in NORMS:
                ours = rule_of(f"scipy.fft.{name}")
                assert_like(getattr(scipy.fft, name), ours, x, n, 0, norm)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "name",
    [*ALONG_TWO, *ALONG_ALL, "hfft2", "ihfft2", "hfftn", "ihfftn", *(c + "n" for c in COSINES)],
)
def test_scipy_along_several_axes(name, dtype):
    function, ours = getattr(scipy.fft, name), rule_of(f"scipy.fft.{name}")
    for shape in [(5,), (3, 4), (4, 3, 6)]:
        x = array(shape, dtype)
        for norm in NORMS:
            assert_like(function, ours, x, norm=norm)
        if len(shape) > 1:
            assert_like(function, ours, x, s=(3, 6))
            assert_like(function, ours, x, s=(-1, 5), axes=(1, 0))
            assert_like(function, ours, x, axes=(1, 1))
            assert_like(function, ours, x, s=3, axes=1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", COSINES)
@pytest.mark.parametrize("type", [1, 2, 3, 4, 5])
def test_cosine_transforms(name, type, dtype):
    function, ours = getattr(scipy.fft, name), rule_of(f"scipy.fft.{name}")
    for shape in SHAPES:
        x = array(shape, dtype)
        for norm in NORMS:
            for orthogonalize in (None, True, False):
                for n in (None, 3, 6):
                    options = {"norm": norm, "orthogonalize": orthogonalize}
                    assert_like(function, ours, x, type, n, 0, **options)


@pytest.mark.parametrize("name", COSINES)
@pytest.mark.parametrize("type", [1, 2, 3, 4])
def test_gradients_of_cosine_transforms(name, type):
    ours = rule_of(f"scipy.fft.{name}")
    for shape in [(2, 4), (2, 5)]:
        assert_gradient(lambda x: ours(x, type), array(shape))
        assert_gradient(lambda x: ours(x, type, axis=0, norm="ortho"), array(shape))


def test_fftpack():
    functions = rules_of("scipy.fftpack")
    for dtype in TYPES:
        for shape in SHAPES:
            x = array(shape, dtype)
            for name in ("fft", "ifft", "rfft", "irfft", *COSINES):
                assert_like(getattr(scipy.fftpack, name), functions[name], x)
                if name not in COSINES:
                    for n in (3, 6):
                        assert_like(getattr(scipy.fftpack, name), functions[name], x, n, 0)
            for name in ("fftn", "ifftn", "fft2", "ifft2", "dctn", "idctn", "dstn", "idstn"):
                assert_like(getattr(scipy.fftpack, name), functions[name], x)
    for name in ("rfft", "irfft"):
        for n in (None, 3, 8):
            assert_gradient(lambda x, name=name, n=n: functions[name](x, n), array((2, 5)))


def test_every_transform_of_scipy_has_an_entry():
    others = {"fftfreq", "rfftfreq", "fhtoffset", "next_fast_len", "prev_fast_len", "get_workers"}
    for module in (scipy.fft, scipy.fftpack):
        entries = rules_of(module.__name__)
        for name in module.__all__:
            if name not in others and not name.endswith(("_backend", "_workers")):
                assert name in entries, (module.__name__, name)
    x = ct.array(array(4))
    np.testing.assert_allclose(rule_of("scipy.fft.fftshift")(x), np.fft.fftshift(np.asarray(x)))
    with pytest.raises(TypeError, match=r"scipy\.fft\.fht has no derivative rule"):
        ct.gradient(lambda x: ct.sum(rule_of("scipy.fft.fht")(x, 0.1, 1.0)), x)
    np.testing.assert_allclose(
        rule_of("scipy.fft.fht")(x, 0.1, 1.0), scipy.fft.fht(plain(x), 0.1, 1.0)
    )
    with pytest.raises(NotImplementedError, match="plan"):
        rule_of("scipy.fft.fft")(x, plan=object())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("diff", ()), ("diff", (3, 2.0)), ("diff", (0,)), ("diff", (-1,)), ("hilbert", ()),
        ("ihilbert", ()), ("tilbert", (0.7,)), ("itilbert", (0.7, 3.0)), ("shift", (0.3,)),
        ("cs_diff", (0.5, 0.7)), ("sc_diff", (0.5, 0.7)), ("ss_diff", (0.5, 0.7)),
        ("cc_diff", (0.5, 0.7)),
    ],
)  # fmt: skip
def test_derivatives_of_periodic_sequences(name, parameters):
    ours, wanted = rule_of(f"scipy.fftpack.{name}"), getattr(scipy.fftpack, name)
    for n in (7, 8):
        assert_gradient(lambda x: ours(x, *parameters), array(n))
        for x in (array(n), array(n) + 1j * array(n)[::-1], array(n, "f4")):
            found = ct.pullback(lambda x: ours(x, *parameters), x)[0]
            np.testing.assert_allclose(found, wanted(x, *parameters), atol=1e-11)
    with pytest.raises(TypeError, match="another argument than x"):
        ct.gradient(lambda h: ct.sum(rule_of("scipy.fftpack.tilbert")(array(8), h)), 0.5)
