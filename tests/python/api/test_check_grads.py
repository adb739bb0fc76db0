"""`check_grads` accepts what is right, and finds what is wrong, in any leaf and of any order."""

from dataclasses import dataclass

import numpy as np
import pytest
from ids import same_everywhere

import cotan as ct


@dataclass
class Model:
    w: np.ndarray
    z: complex
    n: int = 3


def rule(value, slope):
    """Make a function with a derivative that was written down."""

    @ct.adjoint
    def f(x):
        return value(x), lambda dy: (slope(x) * dy,)

    return f


RIGHT = {
    "vector": (lambda x, y: np.sin(x) * y, (np.array([0.5, 1.0]), 2.0)),
    "matrix": (np.linalg.inv, (np.eye(3) + 0.1,)),
    "structure": (
        lambda m: {"a": m.w @ m.w, "b": [m.z**2, m.n, None]},
        (Model(np.array([1.0, 2.0]), 1 + 2j),),
    ),
    "complex": (np.fft.fft, (np.arange(4.0) + 1j,)),
    "real of complex": (lambda z: np.abs(z) ** 3, (np.array([1 + 2j, 2 - 1j]),)),
    "no influence": (lambda x, y: 3.0 * x + 0 * y, (2.0, 1.0)),
    "constant": (lambda x, c: x * c[0], (2.0, [ct.const(3.0)])),
    "integer": (lambda x: x**3, (2,)),
    "gradient": (ct.grad(lambda x, y: np.sin(x) * np.exp(y), (0, 1)), (0.5, 1.5)),
    "gradient of a constant": (
        lambda x: ct.grad(lambda y: np.sin(x * y))(0.7),
        (0.5,),
    ),
    "tangent": (lambda x, t: ct.jvp(lambda x: np.tanh(x) * x, (x,), (t,)), (0.5, 1.5)),
    "float32": (lambda x: np.tanh(x) * x, (np.linspace(-1, 1, 7, dtype=np.float32),)),
    "float32 inside": (lambda x: x.astype(np.float32) ** 3, (np.linspace(0.5, 1, 4),)),
    "rule": (rule(lambda x: x**3, lambda x: 3 * x**2), (2.0,)),
}


@pytest.mark.parametrize("case", RIGHT)
def test_right_derivatives_pass(case):
    f, args = RIGHT[case]
    ct.check_grads(f, args)


@pytest.mark.parametrize("modes", [["fwd"], "rev", ("rev", "fwd")], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_modes(modes, order):
    ct.check_grads(
        lambda t: [np.exp(t["a"]) * t["b"], np.sum(t["b"] ** 3)],
        ({"a": 0.5, "b": np.array([1.0, 2.0])},), order=order, modes=modes,
    )  # fmt: skip


def test_a_wrong_pushforward_is_found_in_its_place():
    @ct.custom_jvp
    def f(x):
        return x**2

    @f.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return x**2, np.array([2.0, 3.0]) * x * t

    with pytest.raises(
        AssertionError, match=r"pushforward is wrong for args\[0\], in .* at \(1,\)"
    ):
        ct.check_grads(f, (np.array([1.0, 2.0]),), modes=["fwd"])


def test_higher_orders():
    ct.check_grads(lambda x: np.exp(x) * x, (0.7,), order=4)


def test_a_wrong_derivative_is_found_in_its_leaf():
    square = rule(lambda x: x**2, lambda x: x)
    with pytest.raises(AssertionError, match=r"wrong for args\[0\]\['?b'?\]?|args\[0\]\.b"):
        ct.check_grads(lambda t: square(t["b"]) + t["a"] ** 2, ({"a": 1.0, "b": 3.0},))


def test_both_numbers_are_named():
    square = rule(lambda x: x**2, lambda x: x)
    with pytest.raises(AssertionError) as caught:
        ct.check_grads(square, (3.0,))
    found, wanted = [float(word.rstrip(",")) for word in str(caught.value).split()[-4::3]]
    assert found == pytest.approx(wanted / 2)


def test_a_wrong_second_derivative_is_found():
    # The first derivative is right where it is asked for, the second is not.
    inner = rule(lambda x: x**2, lambda x: 3 * x)
    cube = rule(lambda x: x**3, lambda x: 3 * inner(x))
    ct.check_grads(cube, (2.0,), order=1)
    with pytest.raises(AssertionError, match="the pullback of the pushforward is wrong"):
        ct.check_grads(cube, (2.0,))
    with pytest.raises(AssertionError, match="the pullback of the pullback is wrong"):
        ct.check_grads(cube, (2.0,), modes="rev")


def linear_map(matrix, claimed):
    """Make `v -> matrix @ v` with the derivative of another matrix."""

    @ct.adjoint
    def apply(v):
        return matrix @ v, lambda dy: (claimed.T @ dy,)

    return apply


@pytest.mark.parametrize("modes", [("rev",), ("fwd",), ("rev", "fwd")], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128], ids=lambda d: d.__name__)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 2)], ids=str)
@pytest.mark.parametrize("curved", [False, True], ids=["linear", "curved"])
def test_derivatives_in_tangents_and_cotangents(modes, dtype, shape, curved):
    # The map is right, what it does to cotangents and tangents is right, and what that does to
    # theirs is wrong.
    rng = np.random.default_rng(0)
    matrix = rng.uniform(0.5, 1.5, shape).astype(dtype)
    x = rng.uniform(0.5, 1.5, shape[1]).astype(dtype)
    power = 2 if curved else 1

    def function(claimed):
        back = linear_map(matrix.T, claimed.T)
        forth = linear_map(matrix, claimed)

        @ct.adjoint
        def reverse(x):
            return matrix @ x**power, lambda dy: (back(dy) * np.conj(power * x ** (power - 1)),)

        @ct.custom_jvp
        def forward(x):
            return matrix @ x**power

        @forward.defjvp
        def _(primals, tangents):
            (x,), (t,) = primals, tangents
            return matrix @ x**power, forth(t * (power * x ** (power - 1)))

        return {"rev": reverse, "fwd": forward}[modes[0]]

    ct.check_grads(function(matrix), (x,), modes=modes)
    wrong = function(1.5 * matrix)
    ct.check_grads(wrong, (x,), order=1, modes=modes[:1])
    with pytest.raises(AssertionError, match="check_grads: the"):
        ct.check_grads(wrong, (x,), modes=modes)


def test_a_wrong_derivative_in_the_cotangent_is_named():
    bar = rule(lambda d: d, lambda d: 1.5)

    @ct.adjoint
    def twice(x):
        return {"a": 2.0 * x}, lambda dy: (2.0 * bar(dy["a"]),)

    with pytest.raises(
        AssertionError, match=r"the pullback of the pullback is wrong for the cotangent of .*a"
    ):
        ct.check_grads(twice, (1.0,), modes="rev")


def test_a_wrong_imaginary_part_is_found():
    @ct.adjoint
    def square(z):
        return z * z, lambda dy: (2 * z * dy,)  # not conjugated

    with pytest.raises(AssertionError, match="the pullback is wrong"):
        ct.check_grads(square, (1 + 2j,))


def test_an_opaque_rule_is_checked_in_reverse():
    @ct.adjoint(opaque=True)
    def cube(x):
        return x**3, lambda dy: (3 * x**2 * dy,)

    ct.check_grads(cube, (np.ones(2),), order=1, modes="rev")
    with pytest.raises(ct.NotDifferentiableError, match="cube"):
        ct.check_grads(cube, (np.ones(2),), order=1, modes="fwd")


def test_nan_is_wrong():
    f = rule(lambda x: x**2, lambda x: x * np.nan)
    with pytest.raises(AssertionError, match="gives nan"):
        ct.check_grads(f, (2.0,))


def test_tolerances():
    nearly = rule(lambda x: x**2, lambda x: 2.001 * x)
    ct.check_grads(nearly, (1.0,), order=1, rtol=1e-2)
    with pytest.raises(AssertionError):
        ct.check_grads(nearly, (1.0,), order=1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"args": (np.arange(3),)}, ValueError, "no float or complex"),
        ({"args": 1.0}, TypeError, "list or tuple"),
        ({"modes": ["sideways"]}, ValueError, "modes are"),
        ({"order": 0}, ValueError, "order must be 1 or more"),
        ({"f": lambda x: "text"}, ValueError, "returns no float"),
    ],
    ids=same_everywhere,
)
def test_refusals(options, error, message):
    with pytest.raises(error, match=message):
        ct.check_grads(**{"f": np.sin, "args": (1.0,), **options})
