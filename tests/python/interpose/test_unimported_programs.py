"""Programs that are no imported modules: files that were run, modules that were made by hand."""

import functools
import gc
import importlib.util
import runpy
import types
import weakref

import numpy as np
import pytest

import cotan as ct

PROGRAM = """
from numpy import zeros
from math import sqrt

def f(x):
    b = zeros(2)
    b[0] = sqrt(x)
    b[1] = float(x) ** 2
    return b.sum()

class Model:
    def run(self, x):
        return f(x)

    __call__ = run
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def made_by_hand(path):
    module = types.ModuleType("made_by_hand")
    exec(compile(path.read_text(), path, "exec"), vars(module))
    return module


def executed(path):
    names: dict = {}
    exec(compile(path.read_text(), path, "exec"), names)
    return types.SimpleNamespace(**names)


def run(path):
    return types.SimpleNamespace(**runpy.run_path(str(path)))


def loaded(path):
    spec = importlib.util.spec_from_file_location("loaded", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_model(model):
    return lambda x: model.run(x)


def of_list(functions):
    return lambda x: functions[0](x)


WAYS = {
    "itself": lambda p: p.f,
    "a method": lambda p: p.Model().run,
    "an object": lambda p: p.Model(),
    "a partial function": lambda p: functools.partial(p.f),
    "closed over": lambda p: lambda x: p.f(x),
    "a default": lambda p: lambda x, f=p.f: f(x),
    "in an object that is closed over": lambda p: of_model(p.Model()),
    "in a list": lambda p: of_list([p.f]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [made_by_hand, executed, run, loaded])
def test_programs_that_are_no_imported_modules(make, way, path):
    program = make(path)
    names = program.f.__globals__
    before = {name: names[name] for name in ("zeros", "sqrt")}
    f = WAYS[way](program)
    for _ in range(2):
        value, (slope,) = ct.value_and_gradient(f, 4.0)
        assert value == pytest.approx(18.0)
        assert slope == pytest.approx(0.25 + 8)
    assert {name: names[name] for name in before} == before
    assert names.get("float", float) is float


def test_another_program_in_the_place_of_one(path):
    def differentiate(program):
        return ct.gradient(lambda x: program.f(x), 4.0)[0]

    assert [differentiate(executed(path)) for _ in range(20)] == [8.25] * 20


def wrapped(f):
    def wrapper(*args):
        return f(*args)

    return wrapper


def wrapped_as_itself(f):
    @functools.wraps(f)
    def wrapper(*args, **options):
        return f(*args, **options)

    return wrapper


def partially(f):
    return functools.partial(lambda g, x: g(x), f)


def by_default(f):
    return lambda x, g=f: g(x)


def by_keyword(f):
    return lambda x, *, g=f: g(x)


def in_a_table(f):
    table = {"f": [f]}
    return lambda x: table["f"][0](x)


class Runner:
    def __init__(self, f):
        self.f = f

    def run(self, x):
        return self.f(x)

    __call__ = run


DECORATORS = {
    "closure": wrapped,
    "wraps": wrapped_as_itself,
    "partial": partially,
    "default": by_default,
    "keyword": by_keyword,
    "table": in_a_table,
    "object": Runner,
    "method": lambda f: Runner(f).run,
    "all of them": lambda f: wrapped(wrapped_as_itself(by_default(in_a_table(Runner(f).run)))),
}


@pytest.mark.parametrize("decorate", DECORATORS.values(), ids=DECORATORS)
def test_a_decorator_that_was_used_before(decorate, path):
    """Its code is known then; what it closes over is another function now."""

    def square(x):
        return x * x

    for _ in range(3):
        assert ct.gradient(decorate(square), 3.0) == (6.0,)
    for _ in range(2):
        assert ct.gradient(decorate(executed(path).f), 4.0) == (8.25,)


def test_what_is_closed_over_is_not_kept_alive():
    def differentiate():
        runner = Runner(lambda x: x * x)
        ct.gradient(lambda x: runner.run(x), 2.0)
        return weakref.ref(runner)

    dead = differentiate()
    gc.collect()
    assert dead() is None


def test_code_that_runs_in_several_namespaces(path):
    """Functions of one text have the same code, whatever their names stand for."""
    code = compile("def f(x): return g(x)", path, "exec")
    near: dict = {"g": lambda x: x * x, "__name__": __name__}
    far: dict = {"g": executed(path).f}
    for names, slope in ((near, 8.0), (far, 8.25)):
        exec(code, names)
        assert ct.gradient(names["f"], 4.0) == (slope,)


def test_names_that_come_later(path):
    def run(text, names):
        exec(compile(text, path, "exec"), names)

    names: dict = {}
    run("import math\ndef f(x): return later(x)", names)
    run("from math import sin as later", names)
    assert ct.gradient(names["f"], 0.0) == (1.0,)
    run("from numpy import ones as more", names)
    run("def f(x): y = more(1); y[0] = x; return y.sum() + later(x)", names)
    assert ct.gradient(names["f"], 0.0) == (2.0,)


def test_text_that_is_executed_takes_part():
    names: dict = {}
    exec(PROGRAM, names)
    before = dict(names)
    assert ct.gradient(names["f"], 4.0) == (8.25,)
    assert ct.gradient(names["Model"]().run, 4.0) == (8.25,)
    assert names.keys() == before.keys()
    assert all(names[name] is value for name, value in before.items())


TABLE = """
import math
import numpy as np

FUNCTIONS = {"sin": math.sin, "made": np.zeros, "tanh": np.tanh, "pi": math.pi}

def f(x):
    out = FUNCTIONS["made"](2)
    out[0] = FUNCTIONS["sin"](x)
    out[1] = FUNCTIONS["tanh"](x) * FUNCTIONS["pi"]
    return out.sum()
"""


def test_tables_of_functions(tmp_path):
    path = tmp_path / "table.py"
    path.write_text(TABLE)
    names = made_by_hand(path)
    before = dict(names.FUNCTIONS)
    for _ in range(2):
        value, (slope,) = ct.value_and_gradient(names.f, 0.5)
        assert value == pytest.approx(names.f(0.5))
        assert slope == pytest.approx((names.f(0.5 + 1e-6) - names.f(0.5 - 1e-6)) / 2e-6)
        assert before == names.FUNCTIONS
    assert ct.prepare(names.f, 0.5)(0.25) == pytest.approx(ct.gradient(names.f, 0.25))


def test_pieces_of_constants_by_functions_of_what_is_traced():
    places = np.linspace(0.1, 3, 7)

    def f(p):
        pieces = np.piecewise(places, [places <= p], [lambda x, k: p * (x / p) ** k, p], 1.5)
        counts = np.piecewise(np.arange(5), [np.arange(5) < 2], [lambda n: n * 2, 7])
        assert type(counts) is np.ndarray
        assert counts.dtype.kind == "i"
        return np.sum(pieces) * counts[-1]

    value, (slope,) = ct.value_and_gradient(f, 1.3)
    np.testing.assert_allclose(value, f(1.3))
    np.testing.assert_allclose(slope, (f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6, rtol=1e-7)


def test_a_function_is_lifted_in_a_module_and_not_in_its_name():
    with pytest.raises(TypeError, match="needs a module"):
        ct.lift("statistics", "fmean", sum)  # type: ignore[arg-type]
