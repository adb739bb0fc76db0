"""Classes of scalars compare equal to those of the numbers that NumPy would have handed out."""

import copy
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import cotan as ct


def seen(function, *args):
    """Give what a function says of its arguments inside of a gradient, and outside."""
    inside = []

    def record(*args):
        inside.append(function(*args))
        return ct.sum(ct.asarray(args[0]) * 1.0)

    ct.gradient(record, *args)
    return inside[0], function(*args)


@pytest.mark.parametrize("value", [1.5, np.float64(1.5), np.float32(1.5), np.ones(2)])
@pytest.mark.parametrize(
    "ask",
    [
        lambda x: type(x) == float,
        lambda x: float == type(x),
        lambda x: type(x) != float,
        lambda x: type(x) in (int, float),
        lambda x: type(x) in [np.float32, np.float64],
        lambda x: type(x * 2) == float,
        lambda x: type(np.sum(x)) == np.float64,
        lambda x: type(np.sum(x)) in (np.float32, np.float64),
        lambda x: type(np.sin(x)) == type(np.cos(x)),
        lambda x: type(x) == int,
        lambda x: type(x) == str,
        lambda x: type(np.sum(x) > 0) == np.bool_,
        lambda x: type(np.sum(x) + 1j) == np.complex128,
        lambda x: isinstance(x, float),
        lambda x: isinstance(np.sum(x), np.floating),
    ],
)
def test_answers_are_those_of_the_result_itself(ask, value):
    inside, outside = seen(ask, value)
    assert inside == outside


@pytest.mark.parametrize("value", [1.5, np.float32(2.0), np.ones(3)])
def test_every_array_is_an_array(value):
    def ask(x):
        y = np.sum(x)
        assert isinstance(y, ct.Array)
        assert isinstance(x, ct.Array)
        assert issubclass(type(y), ct.Array)
        assert type(y).__name__ == np.dtype(y.dtype).type.__name__
        assert type(y) != ct.Array or type(y) is ct.Array
        return y * 1.0

    ct.gradient(ask, value)


def test_tables_of_classes_do_not_find_them():
    # A table says what to do with a plain number, which an active one is not.
    def ask(x):
        assert type(x) not in {int: 1, float: 2}
        y = copy.copy(x) * copy.deepcopy(x)
        return y + x

    assert ct.gradient(ask, 3.0) == (7.0,)


def test_derivatives_pass_through_a_choice_by_class():
    def f(x):
        if type(x) == float:
            return x**2
        raise AssertionError("an array")

    assert ct.gradient(f, 3.0) == (6.0,)
    assert ct.grad(ct.grad(f))(3.0) == 2.0


def test_users_cannot_derive_from_any():
    for cls in (ct.Array, type(ct.sum(ct.array([1.0, 2.0])))):
        with pytest.raises(TypeError, match="not an acceptable base type"):
            type("Mine", (cls,), {})


def test_scalars_have_no_dictionary():
    y = ct.sum(ct.array([1.0, 2.0]))
    with pytest.raises(AttributeError):
        y.note = 1
    assert weakref.ref(y)() is y


def test_scalars_come_and_go_in_all_threads():
    classes = {type(ct.sum(ct.array([1.0, 2.0]))), ct.Array}
    gc.collect()  # A free-threaded Python adds up here what each thread counts.
    before = {cls: sys.getrefcount(cls) for cls in classes}

    def work():
        x = ct.array([1.0, 2.0])
        for _ in range(20_000):
            ct.sum(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    many = [ct.sum(ct.array([float(i)])) for i in range(2_000)]
    gc.collect()
    assert [float(y) for y in many[:3]] == [0.0, 1.0, 2.0]
    del many
    gc.collect()
    for cls, count in before.items():
        assert abs(sys.getrefcount(cls) - count) < 400


class Limit:
    """Keeps the answer of a comparison, and asks for it elsewhere."""

    def __init__(self, value, bound):
        self.exceeded = value > bound

    @property
    def label(self):
        return "high" if self.exceeded is True else "low"


def chosen(x, y):
    """Tell answers of comparisons by identity, in a pattern, a generator and a method."""
    match x, x >= y:
        case (_, True):
            total = 3.0 * x
        case (_, False):
            total = 5.0 * x
        case _:
            raise AssertionError
    if all(answer is not False for answer in [x > y, y == y]):
        total = total * x
    if (x > y) is not (y > 0.0):
        total = total + 11.0 * y
    return total * (2.0 if Limit(x, y).label == "high" else 7.0)


@pytest.mark.parametrize("x", [0.5, 2.0])
def test_the_answer_of_a_comparison_of_numbers_is_true_itself(x):
    value, (slope, _) = ct.value_and_gradient(chosen, x, 1.0)
    assert value == chosen(x, 1.0)
    assert slope == (12.0 * x if x > 1.0 else 35.0)


def test_a_prepared_function_follows_answers_that_are_asked_for_by_identity():
    g = ct.prepare(chosen, transform="value_and_gradient")
    for x in (0.5, 2.0, 0.7, 3.0):
        assert g(x, 1.0) == ct.value_and_gradient(chosen, x, 1.0)
    assert g.num_recordings == 2


class Visitor:
    """Finds methods by the name of a class."""

    def visit(self, x):
        return getattr(self, f"visit_{type(x).__name__}")(x)

    def visit_float(self, x):
        return 3.0 * x

    def visit_float64(self, x):
        return 5.0 * x

    def visit_list(self, x):
        return sum(map(self.visit, x))


def test_the_name_of_a_class_is_that_of_the_number():
    def f(x, y):
        return Visitor().visit([x, y[0], x * x, np.sum(y)])

    y = np.array([1.0, 2.0])
    value, (dx, dy) = ct.value_and_gradient(f, 2.0, y)
    assert value == f(2.0, y)
    assert (dx, *dy) == (3.0 + 12.0, 10.0, 5.0)


@pytest.mark.parametrize("x", [1.5, np.float32(1.5), np.float64(1.5)])
def test_the_class_of_an_argument_makes_numbers(x):
    def f(x):
        made = type(x)(x * x)
        assert type(type(x)(2)) is type(ct.dropgrad(x)) or type(x) == type(type(x)(2))
        return made * type(x)(2) + type(np.sum(x))(x)

    value, (slope,) = ct.value_and_gradient(f, x)
    assert value == f(x)
    assert slope == 7.0
    assert ct.prepare(f, x)(x) == (7.0,)


def test_rounded_numbers_are_keys_of_prepared_functions():
    def f(x):
        parts = {}
        for part in (x, x + 0.04, 2 * x):
            parts[round(part, 1)] = part * part
        return sum(parts.values())

    g = ct.prepare(f, 1.0)
    for x in (1.0, 1.02, 1.0):
        assert g(x) == ct.gradient(f, x)


def test_methods_of_the_class_float_say_what_to_write():
    for call in (lambda x: float.__add__(x, 1.0), float.is_integer):
        with pytest.raises(TypeError, match=r"write x \+ y in place of float.__add__\(x, y\)"):
            ct.gradient(lambda x, call=call: x * call(x), 2.0)


@pytest.mark.parametrize("x", [1.5, np.float64(1.5), np.float32(1.5)])
def test_scalars_have_the_names_of_their_numbers(x):
    names = ("__getitem__", "__index__", "__len__", "as_integer_ratio", "hex", "is_integer", "keys")

    def f(x):
        return x * sum(2.0**i for i, name in enumerate(names) if hasattr(x, name))

    assert ct.value_and_gradient(f, x) == (f(x), (f(x) / x,))
    assert ct.prepare(f, x)(x) == (f(x) / x,)
    with pytest.raises(TypeError, match="scalar index; this one is a float"):
        ct.gradient(lambda x: [1.0, 2.0][x] * x, x)
