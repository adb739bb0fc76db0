"""`ct.torch`: functions of NumPy in programs of PyTorch, and the other way round."""

import dataclasses
import functools
import importlib.util
import subprocess
import sys
import threading

import numpy as np
import pytest

import cotan as ct

if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

# PyTorch warns of its own functions.
pytestmark = pytest.mark.filterwarnings("ignore")


def f(x, y):
    return np.sum(np.sin(x) * y * y, axis=0)


def f_of_torch(x, y):
    return torch.sum(torch.sin(x) * y * y, 0)


def double(*shape, seed=0, requires_grad=True):
    made = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(made, requires_grad=requires_grad)


@pytest.mark.parametrize("prepare", [True, False])
def test_derivatives_of_both_modes_and_second_order(prepare):
    wrapped = ct.torch.wrap(f, prepare=prepare)
    x, y = double(2, 3), double(3, seed=1)
    assert gradcheck(wrapped, (x, y), check_forward_ad=True)
    assert gradgradcheck(wrapped, (x, y), check_fwd_over_rev=True, check_rev_over_rev=True)


def test_third_order():
    x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    y = ct.torch.wrap(np.sin)(x)
    for expected in (torch.cos(x), -torch.sin(x), -torch.cos(x)):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        torch.testing.assert_close(y, expected)


def test_complex_arguments():
    z = torch.tensor([1.0 + 2.0j, 0.5 - 1.0j], dtype=torch.complex128, requires_grad=True)
    assert gradcheck(ct.torch.wrap(lambda z: np.abs(z**3)), (z,), check_forward_ad=True)
    assert gradgradcheck(ct.torch.wrap(lambda z: z**3 * 1j), (z,))
    # With the bit of a conjugate that has not been taken.
    wrapped = ct.torch.wrap(lambda z: np.sum(np.abs(z * (1.0 + z))))
    torch.testing.assert_close(wrapped(z.conj()), torch.sum(torch.abs(z.conj() * (1 + z.conj()))))


@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd, torch.func.hessian])
@pytest.mark.parametrize("argnums", [0, (0, 1)])
def test_transforms_of_torch_func(transform, argnums):
    x, y = double(2, 3, requires_grad=False), double(3, seed=1, requires_grad=False)
    ours = transform(ct.torch.wrap(f), argnums=argnums)(x, y)
    torch.testing.assert_close(ours, transform(f_of_torch, argnums=argnums)(x, y))


@pytest.mark.parametrize("in_dims", [(None, 0), (0, None), (1, 1), (0, 1)])
def test_vmap_alone_inside_and_around_gradients(in_dims):
    def examples(shape, axis, seed):
        if axis is None:
            return double(*shape, seed=seed, requires_grad=False)
        return double(*shape[:axis], 4, *shape[axis:], seed=seed, requires_grad=False)

    args = examples((2, 3), in_dims[0], 0), examples((3,), in_dims[1], 1)

    def results(g):
        mapped = torch.func.vmap(g, in_dims=in_dims)
        one = torch.func.grad(lambda x, y: g(x, y).sum() ** 2, argnums=(0, 1))
        of_mapped = torch.func.grad(lambda x, y: mapped(x, y).sum() ** 2, argnums=(0, 1))
        return mapped(*args), torch.func.vmap(one, in_dims=in_dims)(*args), of_mapped(*args)

    torch.testing.assert_close(results(ct.torch.wrap(f)), results(f_of_torch))


def test_nested_vmap():
    x, y = double(2, 3, requires_grad=False), double(5, 4, 3, seed=1, requires_grad=False)

    def twice(g):
        return torch.func.vmap(torch.func.vmap(g, in_dims=(None, 0)), in_dims=(None, 0))

    torch.testing.assert_close(twice(ct.torch.wrap(f))(x, y), twice(f_of_torch)(x, y))


def test_forward_mode_without_torch_func():
    x, t = double(2, 3, requires_grad=False), double(2, 3, seed=2, requires_grad=False)
    y = double(3, seed=1, requires_grad=False)
    with forward_ad.dual_level():
        value, tangent = forward_ad.unpack_dual(ct.torch.wrap(f)(forward_ad.make_dual(x, t), y))
    expected = torch.func.jvp(lambda x: f_of_torch(x, y), (x,), (t,))
    torch.testing.assert_close((value, tangent), expected)


@dataclasses.dataclass
class Pair:
    a: object
    b: object


def test_structures_of_arguments_and_results():
    @ct.torch.wrap
    def g(model, scale, *, power):
        y = model["pair"].a ** power * scale
        return {"y": y, "parts": [np.sum(y), Pair(np.argmax(y), "text")], "n": 3}

    a = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    result = g({"pair": Pair(a, "unused")}, np.array([1.0, 10.0]), power=3)
    torch.testing.assert_close(result["y"].detach(), torch.tensor([1.0, 80.0]).double())
    assert (result["n"], result["parts"][1].b, int(result["parts"][1].a)) == (3, "text", 1)
    assert not result["parts"][1].a.requires_grad
    (result["parts"][0] + result["y"][1]).backward()
    torch.testing.assert_close(a.grad, torch.tensor([3.0, 240.0]).double())


def test_another_constant_is_another_function():
    g = ct.torch.wrap(lambda x, power, c: np.sum(x**power * c))
    x = torch.tensor([1.0, 2.0])
    for power in (2, 3, 2.0, 2):
        for c in (np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)):
            torch.testing.assert_close(g(x, power, c), torch.sum(x**power * torch.tensor(c)))


def test_sets_are_told_from_one_another():
    g = ct.torch.wrap(lambda x, powers: sum(x**p for p in powers))
    x = torch.full((2,), 2.0)
    for powers in ({1, 2}, {3}, frozenset((1, 2)), frozenset((3,))):
        torch.testing.assert_close(g(x, powers), sum(x**p for p in powers))


def test_arguments_that_need_no_gradient_are_constants():
    special = pytest.importorskip("scipy.special")
    # There is no derivative with respect to the order.
    g = ct.torch.wrap(lambda order, x: np.sum(special.struve(order, x)))
    order, x = torch.tensor(1.5, dtype=torch.float64), double(3)
    with torch.no_grad():
        x.abs_()
    g(order, x).backward()
    expected = ct.gradient(lambda x: np.sum(special.struve(1.5, x)), x.detach().numpy())[0]
    np.testing.assert_allclose(x.grad.numpy(), expected)
    with pytest.raises(TypeError, match="struve"):
        g(order.requires_grad_(), x).backward()


def test_no_gradient_is_recorded_where_none_is_asked_for():
    g = ct.torch.wrap(np.sin)
    assert g(double(3, requires_grad=False)).grad_fn is None
    with torch.no_grad():
        assert not g(double(3)).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(g(torch.ones(2)), torch.sin(torch.ones(2)))


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(12.0).reshape(3, 4).T,
        torch.arange(12.0, dtype=torch.float64)[::3],
        torch.tensor(2.0),
        torch.ones(3, 1).expand(3, 4),
        torch.ones(0, 3),
        torch.arange(4.0, dtype=torch.float16),
        torch.tensor(np.broadcast_to(np.float32(2.0), (3,)).copy()),
    ],
    ids=["transposed", "strided", "0-d", "expanded", "empty", "float16", "plain"],
)
def test_layouts_and_dtypes(x):
    x = x.detach().requires_grad_()
    y = ct.torch.wrap(lambda x: x * x)(x)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_bfloat16():
    pytest.importorskip("ml_dtypes")
    x = torch.tensor([1.0, 2.5], dtype=torch.bfloat16, requires_grad=True)
    y = ct.torch.wrap(lambda x: x * x)(x)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_memory_is_shared_with_arguments_but_not_with_results():
    from cotan._src.interop.torch_tensors import to_numpy

    x = double(3, 4)
    assert np.shares_memory(to_numpy(x.T, "f", 0), x.detach().numpy())
    for prepare in (True, False):
        y = ct.torch.wrap(lambda x: x, prepare=prepare)(x.detach())
        y += 1.0
        torch.testing.assert_close(y, x.detach() + 1.0)


def test_addresses_of_what_is_handed_over():
    from cotan._src.interop.torch_tensors import to_tensor

    seen = []

    def of_numpy(x):
        seen.append(x.ctypes.data)
        return 2.0 * x

    x = double(1000, requires_grad=False)
    ct.torch.wrap(of_numpy, prepare=False)(x)
    made = np.ones(1000)
    assert seen == [x.data_ptr()]
    assert to_tensor(made).data_ptr() == made.ctypes.data

    def of_torch(x):
        seen.append(x.data_ptr())
        return 2.0 * x

    np.testing.assert_array_equal(ct.torch.lift(of_torch)(made), 2.0 * made)
    assert seen[1:] == [made.ctypes.data]


def test_read_only_memory():
    a = np.arange(3.0)
    a.flags.writeable = False
    x = torch.from_numpy(a).requires_grad_()
    ct.torch.wrap(lambda x: np.sum(x * x))(x).backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(2, device="meta"), r"tensor 0 of shape \(2,\).*is on meta.*x\.cpu\(\)"),
        (torch.eye(2).to_sparse(), r"layout torch\.sparse_coo.*to_dense"),
        (ct.const(torch.ones(2)), r"ct\.const.*detach\(\)"),
    ],
)
def test_refused_arguments(x, message):
    with pytest.raises(TypeError, match=message):
        ct.torch.wrap(lambda x: np.sum(x))(x)


def test_batches_of_gradients_are_refused_by_name():
    x = double(3)
    y = ct.torch.wrap(np.sin)(x)
    with pytest.raises(TypeError, match=r"is_grads_batched.*torch\.func\.jacrev"):
        torch.autograd.grad(y, x, torch.eye(3).double(), is_grads_batched=True)


def test_what_pytorch_refuses_is_refused():
    x = double(3)
    y = ct.torch.wrap(lambda x: np.sum(x * x))(x)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    z = x * 1.0
    y = ct.torch.wrap(lambda x: np.sum(x * x))(z)
    z.mul_(2.0)
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()


def test_errors_of_the_function_arrive():
    with pytest.raises(ValueError, match="shapes"):
        ct.torch.wrap(lambda x: np.dot(x, np.ones(3)))(double(2))


def test_what_cannot_be_replayed_is_recorded_each_time():
    rng = np.random.default_rng(0)
    g = ct.torch.wrap(lambda x: np.sum(x) * rng.standard_normal())
    x = double(3)
    values = set()
    for _ in range(3):
        y = g(x)
        (dx,) = torch.autograd.grad(y, x)
        torch.testing.assert_close(dx * x.detach().sum(), y.detach().expand(3))
        values.add(float(y.detach()))
    assert len(values) == 3


def test_branches_and_shapes():
    g = ct.torch.wrap(lambda x: np.sum(x) if x[0] > 0 else np.sum(x * x))
    for made in (double(3), -double(3).detach(), double(5), double(3, seed=3)):
        x = made.detach().requires_grad_()
        (dx,) = torch.autograd.grad(g(x), x)
        torch.testing.assert_close(dx, torch.ones_like(x) if x[0] > 0 else 2 * x.detach())


def test_gradients_of_little_work():
    """Values and gradients that one replay gives are those of a pullback, whatever comes next."""
    factor = np.array([1.0, 2.0, 3.0])
    g = ct.torch.wrap(lambda x, unused: np.sum(np.exp(x) * factor[: len(x)]))
    for n in (3, 2, 3, 1):
        x, unused = double(n), double(2)
        y = g(x, unused)
        kept = torch.exp(x.detach()) * torch.tensor(factor[:n])
        # What the function closes over counts when it is called.
        factor *= 2.0
        y.backward(torch.tensor(3.0, dtype=torch.float64), retain_graph=True)
        y.backward()
        torch.testing.assert_close(x.grad, 4.0 * kept)
        torch.testing.assert_close(unused.grad, torch.zeros_like(unused))
    x, unused = double(3), double(2)
    (slope,) = torch.autograd.grad(g(x, unused), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    torch.testing.assert_close(second, torch.exp(x.detach()) * torch.tensor(factor))


def test_cotangents_of_little_work():
    """Cotangents computed from the arguments are those of the call, whatever comes next."""
    factor = np.array([1.0, 2.0, 3.0])
    settings = {"power": 2.0}

    def powers(x, y, unused):
        kept = factor[: len(x)]
        return x ** settings["power"] * kept * y if x[0] > 0 else x * y

    g = ct.torch.wrap(powers)
    by_torch = torch.tensor(factor)
    for n, sign, power in [(3, 1, 2.0), (3, 1, 2.0), (2, 1, 2.0), (3, -1, 2.0), (3, 1, 3.0)] * 2:
        x = (sign * double(n).detach().abs()).requires_grad_()
        y, constant = double(n, seed=1), double(n, requires_grad=False)
        settings["power"] = power
        found = g(x, y, constant)
        expected = x**power * by_torch[:n] * y if sign > 0 else x * y
        torch.testing.assert_close(found, expected)
        # What the function closes over counts when it is called.
        by_torch = by_torch * 2.0
        factor *= 2.0
        settings["power"] = 7.0
        ct_of_it = double(n, seed=2, requires_grad=False)
        for _ in range(2):
            torch.testing.assert_close(
                torch.autograd.grad(found, (x, y), ct_of_it, retain_graph=True),
                torch.autograd.grad(expected, (x, y), ct_of_it, retain_graph=True),
            )
        found.sum().backward()
        assert (x.grad is not None, constant.grad) == (True, None)
        found = g(x, y, constant)
        with torch.no_grad():
            x.mul_(2.0)
        with pytest.raises(RuntimeError, match="inplace"):
            torch.autograd.grad(found, x, ct_of_it)


def test_a_result_of_another_kind_than_the_last_one():
    def either(x):
        if x.shape == (2,):
            return np.sum(x * x)
        return x * x if x.shape == (3,) else {"total": np.sum(x * x), "parts": 3 * x}

    g = ct.torch.wrap(either)
    for n in (2, 2, 3, 3, 2, 4, 4, 3, 2):
        x = double(n)
        y = g(x)
        if n == 4:
            y, parts = y["total"], y["parts"]
            torch.testing.assert_close(parts, 3 * x)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 2 * x.detach())


def test_a_pullback_of_unknown_work_waits_for_the_backward():
    calls = []

    @ct.adjoint(opaque=True)
    def cubed(x):
        def back(dy):
            calls.append("back")
            return dy * 3 * x**2

        return x**3, back

    g = ct.torch.wrap(lambda x: np.sum(cubed(x)))
    x = double(3)
    for _ in range(3):
        y = g(x)
    assert calls == []
    y.backward()
    assert calls == ["back"]
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)


@pytest.mark.parametrize(
    ("function", "shapes", "is_little"),
    [
        (lambda x: np.sum(x * x), [(3,), (5,)], True),
        (lambda x: np.sum(x * x), [(3,), (5000,)], False),
        (lambda x: functools.reduce(lambda y, _: np.sin(y), range(100), np.sum(x)), [(3,)], False),
        (lambda x: x * x, [(3,), (5,)], True),
        (lambda x: x * x, [(3,), (5000,)], False),
        (lambda x: x.astype(np.float16) * x, [(3,)], False),
    ],
    ids=["number", "large later", "long", "array", "large array later", "narrow"],
)
def test_what_is_little_work(function, shapes, is_little):
    from cotan._src.interop.flat import Flat

    flat = Flat(function, "f", True)
    for shape in shapes:
        x = np.random.default_rng(0).normal(size=shape)
        for _ in range(3):
            slope = flat.slopes.get((True,))
            found = slope and slope([x])
            value, slopes, pull = found or flat.alone([x], (True,))
        if found:
            found = slopes[0] if pull is None else pull(np.ones_like(value))
            np.testing.assert_allclose(found, 2 * x)
    assert (found is not None) == is_little


def test_scaled_gradients_of_half_precision():
    # Without the scale of the loss, 2e-8 is zero.
    x = torch.full((2,), 1e-2, dtype=torch.float16, requires_grad=True)

    def loss(x):
        return (np.sum(x * x) * np.float16(1e-4) * np.float16(1e-2)).astype(np.float32)

    g = ct.torch.wrap(loss)
    for _ in range(3):
        x.grad = None
        g(x).backward(torch.tensor(2.0**14))
    assert x.grad.tolist() == pytest.approx([2.0**14 * 2e-8] * 2, rel=1e-2)


def test_methods_and_names():
    class Model:
        def __init__(self):
            self.scale = 3.0

        @ct.torch.wrap
        def __call__(self, x):
            """Scale it."""
            return self.scale * x

    assert Model.__call__.__doc__ == "Scale it."
    torch.testing.assert_close(Model()(torch.ones(2)), torch.full((2,), 3.0))
    assert repr(ct.torch.wrap(f)) == "<ct.torch.wrap(f)>"
    with pytest.raises(TypeError, match="takes a function, not int"):
        ct.torch.wrap(3)


def test_threads():
    g, failed = ct.torch.wrap(f), []

    def work(seed):
        for n in range(1, 6):
            x, y = double(n, 3, seed=seed), double(3, seed=seed + 1)
            ours = torch.autograd.grad(g(x, y).sum(), (x, y))
            theirs = torch.autograd.grad(f_of_torch(x, y).sum(), (x, y))
            failed.extend(n for a, b in zip(ours, theirs, strict=True) if not torch.allclose(a, b))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_compiled_functions_call_it():
    wrapped = ct.torch.wrap(np.sin)
    compiled = torch.compile(lambda x: torch.sum(2 * wrapped(x * x)), backend="eager")
    x = double(3)
    (dx,) = torch.autograd.grad(compiled(x), x)
    torch.testing.assert_close(dx, (4 * x * torch.cos(x * x)).detach())


def test_a_step_of_an_optimiser():
    x = double(3)
    optimizer = torch.optim.SGD([x], lr=0.1)
    g = ct.torch.wrap(lambda x: np.sum((x - 1.0) ** 2))
    for _ in range(60):
        optimizer.zero_grad()
        g(x).backward()
        optimizer.step()
    torch.testing.assert_close(x.detach(), torch.ones(3).double(), atol=1e-4, rtol=0)


def test_cotan_imports_neither_pytorch_nor_jax():
    code = (
        "import sys, cotan as ct; ct.torch.wrap, ct.jax.wrap; "
        "print([m for m in ('torch', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --------------------------------------------------------------------------------------------------
# The other way round


def of_structure(x, y):
    return {"a": f_of_torch(x, y), "b": [torch.exp(x)], "i": torch.argmax(x), "n": 3}


def test_lifted_functions():
    g = ct.torch.lift(of_structure)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3)), rng.standard_normal(3)
    plain = g(x, y)
    np.testing.assert_allclose(plain["a"], f(x, y))
    assert (type(plain["a"]), int(plain["i"]), plain["n"]) == (np.ndarray, np.argmax(x), 3)

    def loss(x, y):
        result = g(np.tanh(x), y)
        return np.sum(result["a"] ** 2) + np.sum(result["b"][0]) * result["n"]

    def plain_loss(x, y):
        return np.sum(f(np.tanh(x), y) ** 2) + 3 * np.sum(np.exp(np.tanh(x)))

    ct.check_grads(loss, (x, y), order=2)
    for ours, theirs in zip(ct.gradient(loss, x, y), ct.gradient(plain_loss, x, y), strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_lifted_functions_of_complex_and_single_arrays():
    z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
    ct.check_grads(lambda z: np.sum(ct.torch.lift(lambda z: torch.abs(z**2))(z)), (z,), order=2)
    (g,) = ct.gradient(lambda x: np.sum(ct.torch.lift(torch.sin)(x)), np.zeros(2, np.float32))
    np.testing.assert_array_equal(g, np.ones(2, np.float32), strict=True)
    assert ct.gradient(ct.torch.lift(torch.sin), 0.0) == (1.0,)


def test_lifted_functions_are_replayed():
    calls = []

    @ct.torch.lift
    def g(x):
        calls.append(1)
        return torch.sin(x)

    prepared = ct.prepare(lambda x: np.sum(g(x) * x), transform="value_and_gradient")
    for x in (np.ones(2), np.array([0.5, 2.0])):
        value, (dx,) = prepared(x)
        np.testing.assert_allclose(value, np.sum(np.sin(x) * x))
        np.testing.assert_allclose(dx, np.sin(x) + x * np.cos(x))


def test_a_gradient_calls_a_lifted_function_once():
    calls = []

    @ct.torch.lift
    def g(x):
        calls.append(1)
        return torch.sin(x)

    ct.gradient(lambda x: np.sum(g(x)), np.ones(3))
    assert len(calls) == 1


def test_modules_and_their_parameters():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    module = module.double()
    model, params = ct.torch.lift(module), ct.torch.parameters(module)
    assert list(params) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    x = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(model(x), module(torch.tensor(x)).detach().numpy())

    def loss(params, x):
        return np.mean(model(x, parameters=params) ** 2)

    ct.check_grads(loss, (params, x), order=2)
    grads, _ = ct.gradient(loss, params, ct.const(x))
    torch.mean(module(torch.tensor(x)) ** 2).backward()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(grads[name], parameter.grad.numpy())
    # Copies: what happens to them does not happen to the module.
    params["0.bias"] += 1.0
    assert not np.allclose(params["0.bias"], module[0].bias.detach().numpy())


def test_a_random_module_has_the_gradient_of_its_draw():
    dropout = ct.torch.lift(torch.nn.Dropout(0.5))
    y, back = ct.pullback(lambda x: dropout(x), np.ones(64))
    np.testing.assert_array_equal(np.asarray(back(np.ones(64))[0]), y)
    assert {*np.asarray(y)} == {0.0, 2.0}


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        return 2 * dy * ctx.saved_tensors[0]


def test_what_pytorch_cannot_differentiate_is_refused():
    once = ct.torch.lift(lambda x: torch.sin(x) + Once.apply(x))
    x = np.ones(2)
    np.testing.assert_allclose(ct.grad(lambda x: np.sum(once(x)))(x), np.cos(x) + 2 * x)
    with pytest.raises(ct.NotDifferentiableError, match="no derivative of order 2"):
        np.asarray(ct.hvp(lambda x: np.sum(once(x)), x, x))
    detached = ct.torch.lift(lambda x: x.detach() * 2)
    with pytest.raises(ct.NotDifferentiableError, match="no gradient in PyTorch"):
        ct.gradient(lambda x: np.sum(detached(x)), x)
    with pytest.raises(ValueError, match="vmap: sin is a lifted function"):
        ct.vmap(ct.torch.lift(torch.sin))(np.ones(3))
    with pytest.raises(TypeError, match="no tensor in it"):
        ct.torch.lift(lambda x: 3)(x)
    with pytest.raises(TypeError, match=r"takes a torch\.nn\.Module, not int"):
        ct.torch.parameters(3)


def test_there_and_back():
    g = ct.torch.wrap(ct.torch.lift(torch.sin))
    x = double(3)
    (dx,) = torch.autograd.grad(g(x).sum(), x)
    torch.testing.assert_close(dx, torch.cos(x.detach()))
