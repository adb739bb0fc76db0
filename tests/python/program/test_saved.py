"""Pullbacks, programs and arrays that leave the process: pickled, and saved to files."""

import copy
import os
import pickle
import socket
import subprocess
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cotan as ct

DATA = Path(__file__).parents[2] / "data" / "saved"


@dataclass
class Layer:
    w: Any
    b: Any
    name: str = "layer"


Pair = namedtuple("Pair", "left right")  # noqa: PYI024


class Celsius:
    """A number that is its own kind of cotangent."""

    def __init__(self, value):
        self.value = value


class Symmetric:
    def __init__(self, matrix):
        self.matrix = matrix


@ct.adjoint
def cube(x):
    return x**3, lambda dy: (dy * 3 * x**2,)


@ct.adjoint
def warmer(t):
    return Celsius(t.value + 1.0), lambda dt: (Celsius(dt.value),)


def rows(*shape, dtype=float):
    count = int(np.prod(shape))
    return ((np.arange(count) % 7 - 2.5) / 3).reshape(shape).astype(dtype)


def network(layers, x):
    for layer in layers:
        x = np.tanh(layer.w @ x + layer.b)
    return x


CASES = {
    "product": lambda: ct.pullback(lambda a, b: a @ b, rows(3, 4), rows(4, 2)),
    "numbers": lambda: ct.pullback(lambda x, y: x * y**2, 3.0, 0.5),
    "single": lambda: ct.pullback(lambda x: np.sum(np.sin(x) * x), rows(5, dtype=np.float32)),
    "complex": lambda: ct.pullback(lambda z: np.exp(1j * z) * z, rows(3) + 1j * rows(3)),
    "complex_of_real": lambda: ct.pullback(lambda x: np.exp(1j * x), rows(3)),
    "half": lambda: ct.pullback(lambda x: np.exp(x) * x, rows(4, dtype=np.float16)),
    "constant": lambda: ct.pullback(lambda x, c: x * np.cos(c), rows(4), ct.const(rows(4))),
    "without_influence": lambda: ct.pullback(lambda x, y: np.exp(x), 1.0, rows(2)),
    "empty": lambda: ct.pullback(lambda x: np.exp(x), np.zeros((0, 3))),
    "view": lambda: ct.pullback(lambda a, b: a.T @ b[::-1, ::2], rows(4, 3), rows(4, 5)),
    "branches": lambda: ct.pullback(lambda x: np.where(x > 0, np.log(np.abs(x)), 0 * x), rows(6)),
    "index": lambda: ct.pullback(lambda x: x[np.array([2, 0, 2])] ** 2, rows(4)),
    "dict": lambda: ct.pullback(
        lambda p: {"y": p["a"] * p[3][0], "z": (p["a"], None)}, {"a": 2.0, 3: [rows(2), "text"]}
    ),
    "objects": lambda: ct.pullback(
        network, [Layer(rows(3, 4), rows(3)), Layer(rows(2, 3), rows(2))], rows(4)
    ),
    "named_tuple": lambda: ct.pullback(lambda p: p.left * p.right, Pair(2.0, rows(2))),
    "namespace": lambda: ct.pullback(lambda p: p.a * p.b, SimpleNamespace(a=2.0, b=3.0)),
    "ordered": lambda: ct.pullback(lambda p: p["a"] ** 2, OrderedDict(a=2.0, b=1.0)),
    "keys": lambda: ct.pullback(
        lambda p: sum(v**2 for v in p.values()),
        {"x": 1.0, 2: 2.0, 0.1: 3.0, None: 4.0, (1, "a"): 5.0, b"\xff": 6.0, True: 7.0},
    ),
    "mask": lambda: ct.pullback(network, [Layer(rows(2, 2), rows(2))], rows(2), wrt="layers[*].w"),
    "position": lambda: (None, ct.pullback(lambda x, y: x * y, 2.0, 3.0)[1].wrt(1)),
    "rule": lambda: ct.pullback(lambda x: np.sum(cube(x)), rows(3)),
    "checkpoint": lambda: ct.pullback(lambda x: ct.checkpoint(np.sin)(x) ** 2, rows(3)),
    "array": lambda: ct.pullback(lambda x: np.exp(x), ct.array(rows(3))),
    "linear": lambda: ct.pullback(lambda x: x + x, rows(3)),
    "many": lambda: ct.pullback(
        lambda x: [x[0] * x[1], np.linalg.inv(x[2]), np.cumsum(x[3]), np.max(x[4])],
        [2.0, rows(2), rows(2, 2) + np.eye(2), rows(3), rows(4)],
    ),
}
# Rules become the primitives that they consist of.
WITHOUT_RULES = {"rule", "checkpoint"}
# What comes back from a file knows no classes.
WITH_CLASSES = {"objects", "named_tuple", "namespace", "ordered", "mask"}


def ones_for(name):
    """Give a cotangent for the value of a case."""
    y = {"position": 6.0}.get(name)
    if y is None:
        y, _ = CASES[name]()

    def ones(part):
        if isinstance(part, dict):
            return {k: ones(v) for k, v in part.items()}
        if isinstance(part, (list, tuple)):
            return type(part)(ones(v) for v in part)
        return None if part is None else np.ones_like(np.asarray(part)) * 0.7

    return ones(y)


def expect_same(mine, theirs, classes=True):
    """Compare structures of cotangents, bit by bit."""
    if isinstance(theirs, ct.Tangent):
        assert isinstance(mine, ct.Tangent)
        assert mine._fields.keys() == theirs._fields.keys()
        assert mine._type.__name__ == theirs._type.__name__
        assert not classes or mine._type is theirs._type
        mine, theirs = mine._fields, theirs._fields
    if classes:
        assert type(mine) is type(theirs)
    if isinstance(theirs, dict):
        assert list(mine) == list(theirs)
        for key, part in theirs.items():
            expect_same(mine[key], part, classes)
    elif type(theirs) is not ct.Array and isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            expect_same(one, other, classes)
    elif theirs is None:
        assert mine is None
    else:
        assert mine._rank == theirs._rank
        one, other = np.asarray(mine), np.asarray(theirs)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("name", CASES)
def test_pickle(name, protocol):
    _, back = CASES[name]()
    again = pickle.loads(pickle.dumps(back, protocol))
    dy = ones_for(name)
    expect_same(again(dy), back(dy))
    assert again.nbytes == back.nbytes
    assert repr(again) == repr(back)
    if name not in WITHOUT_RULES:
        assert str(again.program) == str(back.program)
        assert str(again.forward) == str(back.forward)
    # And once more, from what was loaded.
    third = pickle.loads(pickle.dumps(again, protocol))
    expect_same(third(dy), back(dy))


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_file(name, mmap, tmp_path):
    _, back = CASES[name]()
    back.save(tmp_path / "back")
    again = ct.load(tmp_path / "back", mmap=mmap)
    dy = ones_for(name)
    expect_same(again(dy), back(dy), classes=name not in WITH_CLASSES)
    assert again.nbytes == back.nbytes
    assert again.program.text() == pickle.loads(pickle.dumps(back)).program.text()
    # What was loaded is saved as it was.
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "back").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_a_copy_is_the_same(name):
    _, back = CASES[name]()
    assert copy.copy(back) is back
    assert copy.deepcopy([back])[0] is back


def test_parts_can_be_asked_for_afterwards(tmp_path):
    _, back = CASES["objects"]()
    back.save(tmp_path / "back")
    for again in (pickle.loads(pickle.dumps(back)), ct.load(tmp_path / "back")):
        narrow, same = again.wrt("layers[1].*"), back.wrt("layers[1].*")
        assert narrow.nbytes == same.nbytes < back.nbytes
        dy = rows(2)
        expect_same(narrow(dy), same(dy), classes=False)
        expect_same(again.wrt(1)(dy), back.wrt(1)(dy), classes=False)
        with pytest.raises(ValueError, match="biases"):
            again.wrt("layers[*].biases")


def test_classes_of_a_file_are_never_imported(tmp_path):
    _, back = CASES["objects"]()
    back.save(tmp_path / "back")
    layers, _ = ct.load(tmp_path / "back")(rows(2))
    assert repr(layers[0]).startswith("Tangent[Layer](w=")
    assert layers[0]._type is not Layer
    assert layers[0]._type is layers[1]._type
    _, back = CASES["named_tuple"]()
    back.save(tmp_path / "back")
    (pair,) = ct.load(tmp_path / "back")(rows(2))
    assert type(pair) is not Pair
    assert type(pair).__name__ == "Pair"
    np.testing.assert_array_equal(pair.left, pair[0])
    assert repr(pair).startswith("Pair(left=")


def test_natural_cotangents():
    _, back = ct.pullback(lambda t: warmer(t).value ** 2, Celsius(3.0))
    (mine,) = pickle.loads(pickle.dumps(back))(1.0)
    assert isinstance(mine, Celsius)
    assert float(mine.value) == 8.0


def test_projections_are_pickled_and_not_saved(tmp_path):
    ct.project_to(Symmetric)(lambda s, t: t.replace(matrix=(t.matrix + t.matrix.T) / 2))
    _, back = ct.pullback(lambda s: np.sum(s.matrix[0] ** 2), Symmetric(rows(2, 2)))
    (mine,) = pickle.loads(pickle.dumps(back))(1.0)
    np.testing.assert_array_equal(mine.matrix, np.asarray(mine.matrix).T)
    with pytest.raises(pickle.PicklingError, match="Symmetric.*project_to"):
        back.save(tmp_path / "back")
    assert not list(tmp_path.iterdir())


def test_arrays_that_a_function_used(tmp_path):
    model = SimpleNamespace(w=ct.array(rows(3)))
    _, back = ct.pullback(lambda: np.sum(model.w**2), wrt=[model.w])
    same_model, again = pickle.loads(pickle.dumps((model, back)))
    np.testing.assert_array_equal(again(1.0)[same_model.w], 2 * rows(3))
    with pytest.raises(pickle.PicklingError, match="pass them as arguments"):
        back.save(tmp_path / "back")


def test_keys_that_a_file_cannot_hold(tmp_path):
    _, back = ct.pullback(lambda p: p[frozenset()] ** 2, {frozenset(): 2.0})
    expect_same(pickle.loads(pickle.dumps(back))(1.0), back(1.0))
    with pytest.raises(pickle.PicklingError, match=r"frozenset\(\), a key"):
        back.save(tmp_path / "back")


def test_a_second_derivative_of_what_was_loaded():
    _, back = ct.pullback(lambda x: np.sum(x**3), rows(3))
    again = pickle.loads(pickle.dumps(back))
    assert ct.grad(lambda s: np.sum(again(s)[0]))(1.0) == pytest.approx(np.sum(3 * rows(3) ** 2))


# --------------------------------------------------------------------------------------------------
# Programs


def test_programs(tmp_path):
    c = rows(3)
    program = ct.trace(lambda x: np.sum(np.exp(x) * c), rows(3))
    program.save(tmp_path / "program")
    for again in (
        pickle.loads(pickle.dumps(program)),
        ct.load(tmp_path / "program"),
        ct.load(tmp_path / "program", mmap=True),
    ):
        assert str(again) == str(program)
        assert again(rows(3)) == program(rows(3))
    assert copy.deepcopy(program) is program


def test_a_rule_in_a_program_is_not_forgotten(tmp_path):
    program = ct.trace(lambda x: cube(x), 2.0)
    with pytest.raises(pickle.PicklingError, match="cube has a derivative rule"):
        pickle.dumps(program)
    with pytest.raises(pickle.PicklingError, match="cube has a derivative rule"):
        program.save(tmp_path / "program")


# --------------------------------------------------------------------------------------------------
# What cannot leave


def my_hook(g):
    return g


@ct.adjoint(opaque=True)
def my_rule(x):
    return np.sin(x), lambda dy: (dy * np.cos(np.asarray(x)),)


@pytest.mark.parametrize(
    ("f", "name"),
    [(lambda x: ct.hook(my_hook, x) * 2, "my_hook"), (lambda x: my_rule(x) * 2, "my_rule")],
)
def test_code_of_this_process_stays(f, name, tmp_path):
    _, back = ct.pullback(lambda x, y: f(x) * np.exp(y), 3.0, 2.0)
    for send in (pickle.dumps, lambda b: b.save(tmp_path / "back")):
        with pytest.raises(pickle.PicklingError, match=rf"{name}.*opaque=True.*back\.wrt"):
            send(back)
    assert not list(tmp_path.iterdir())
    assert copy.deepcopy(back) is back
    # What does not need it may leave.
    narrow = pickle.loads(pickle.dumps(back.wrt("y")))
    assert float(narrow(1.0)) == pytest.approx(float(back(1.0)[1]))


def test_a_pullback_inside_a_gradient():
    def f(x):
        _, back = ct.pullback(lambda y: y**3, x)
        return pickle.loads(pickle.dumps(back))(1.0)[0]

    with pytest.raises(pickle.PicklingError, match="still being computed"):
        ct.gradient(f, 2.0)


# --------------------------------------------------------------------------------------------------
# Another process


def test_another_process_needs_nothing_else(tmp_path):
    _, back = CASES["objects"]()
    back.save(tmp_path / "back")
    _, small = CASES["product"]()
    (tmp_path / "small.pkl").write_bytes(pickle.dumps(small))
    code = (
        "import sys, pickle, numpy as np, cotan as ct\n"
        "small = pickle.load(open(sys.argv[2], 'rb'))\n"
        "layers, dx = ct.load(sys.argv[1])(np.ones(2))\n"
        "da, db = small(np.ones((3, 2)))\n"
        "np.savez(sys.argv[3], w=layers[0].w, dx=dx, da=da)\n"
        "assert 'test_saved' not in sys.modules and 'scipy' not in sys.modules\n"
    )
    arguments = [tmp_path / "back", tmp_path / "small.pkl", tmp_path / "out.npz"]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=tmp_path)
    out = np.load(tmp_path / "out.npz")
    layers, dx = back(np.ones(2))
    np.testing.assert_array_equal(out["w"], layers[0].w)
    np.testing.assert_array_equal(out["dx"], dx)
    np.testing.assert_array_equal(out["da"], small(np.ones((3, 2)))[0])


# --------------------------------------------------------------------------------------------------
# Files


def test_a_full_disk_leaves_the_old_file(tmp_path):
    pytest.importorskip("resource")
    _, small = CASES["product"]()
    small.save(tmp_path / "back")
    code = (
        "import resource, sys, numpy as np, cotan as ct\n"
        "_, back = ct.pullback(lambda a: a @ a, np.ones((300, 300)))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    back.save(sys.argv[1])\n"
        "except OSError as error:\n"
        "    print(error.errno, error.filename)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "back"], check=True, capture_output=True, text=True
    )
    number, name = done.stdout.split()
    assert os.strerror(int(number)) == "File too large"
    assert name == str(tmp_path / "back")
    assert [p.name for p in tmp_path.iterdir()] == ["back"]
    dy = np.ones((3, 2))
    expect_same(ct.load(tmp_path / "back")(dy), small(dy))


def test_only_regular_files(tmp_path):
    _, back = CASES["product"]()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.fspath(tmp_path / "socket"))
    for name in ("folder", "pipe", "socket", "/dev/null"):
        kind = "a directory" if name == "folder" else "a device, a pipe or a socket"
        for action in (back.save, ct.load, lambda path: ct.load(path, mmap=True)):
            with pytest.raises(ValueError, match=f"{name} is {kind}, not a regular file"):
                action(tmp_path / name)
    bound.close()
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(ValueError, match="a link to something that is not there"):
        back.save(tmp_path / "link")
    (tmp_path / "target").write_text("old")
    back.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert ct.load(tmp_path / "target").nbytes == back.nbytes


def test_errors_of_the_system(tmp_path):
    _, back = CASES["product"]()
    with pytest.raises(FileNotFoundError, match="absent"):
        ct.load(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="absent"):
        ct.load(tmp_path / "absent", mmap=True)
    with pytest.raises(FileNotFoundError, match="absent"):
        back.save(tmp_path / "absent" / "back")
    with pytest.raises(ValueError, match="(?i)nul"):
        back.save(os.fspath(tmp_path) + "/a\0b")
    with pytest.raises(ValueError, match="(?i)nul"):
        ct.load(os.fspath(tmp_path) + "/a\0b")
    with pytest.raises(TypeError):
        back.save(3)
    back.save(os.fsencode(tmp_path / "bytes"))
    assert ct.load(os.fsencode(tmp_path / "bytes")).nbytes == back.nbytes


@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_no_path(mmap):
    """A number is none either, though the system takes one for an open file."""
    for path in (None, 3, open):
        with pytest.raises(TypeError, match="expected str, bytes or os.PathLike object, not "):
            ct.load(path, mmap=mmap)
    with pytest.raises(ValueError, match="file name contained an unexpected NUL"):
        ct.load("a\0b", mmap=mmap)


def test_the_mode_of_a_file_stays(tmp_path):
    _, back = CASES["product"]()
    (tmp_path / "back").write_text("old")
    (tmp_path / "back").chmod(0o640)
    back.save(tmp_path / "back")
    assert (tmp_path / "back").stat().st_mode & 0o777 == 0o640


def test_what_is_no_saved_file(tmp_path):
    path = tmp_path / "other"
    for contents, message in (
        (b"", "cut short"),
        (b"hello world", "does not begin like one"),
        (pickle.dumps([1]), "does not begin like one"),
        (b"\x89COTAN\n" + bytes(100), "line ends"),
    ):
        path.write_bytes(contents)
        for mmap in (False, True):
            with pytest.raises(ValueError, match=message):
                ct.load(path, mmap=mmap)


# --------------------------------------------------------------------------------------------------
# Files of earlier versions


@pytest.mark.parametrize("path", sorted(DATA.glob("*.cotan")), ids=lambda p: p.name)
def test_files_of_earlier_formats(path):
    """They read, and give the numbers that they gave when they were written."""
    expected = np.load(path.with_suffix(".npz"))
    loaded = ct.load(path)
    if isinstance(loaded, ct.Program):
        np.testing.assert_array_equal(loaded(expected["x"]), expected["y"])
        return
    check_leaves(loaded(expected["dy"]), expected)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.pickle")), ids=lambda p: p.name)
def test_pickles_of_earlier_formats(path):
    expected = np.load(path.with_suffix(".npz"))
    check_leaves(pickle.loads(path.read_bytes())(expected["dy"]), expected)


def check_leaves(cotangents, expected):
    found = leaves_of(cotangents)
    assert len(found) == sum(name.startswith("ct") for name in expected)
    for i, leaf in enumerate(found):
        np.testing.assert_allclose(np.asarray(leaf), expected[f"ct{i}"], rtol=1e-12)


def leaves_of(tree):
    if isinstance(tree, ct.Tangent):
        tree = list(tree._fields.values())
    if isinstance(tree, dict):
        tree = list(tree.values())
    if type(tree) is not ct.Array and isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves_of(item)]
    return [] if tree is None else [tree]


def test_there_are_files_of_earlier_formats():
    assert len(list(DATA.glob("*.cotan"))) >= 3
    assert list(DATA.glob("*.pickle"))


# --------------------------------------------------------------------------------------------------
# Lines, and structures that are odd


def lined():
    def loss(x):
        y = np.exp(x)
        return np.sum(y * 2.5)

    with ct.detect():
        _, back = ct.pullback(loss, np.ones(3))
    return ct.trace(loss, np.ones(3), lines=True), back


def ways(what, tmp_path):
    what.save(tmp_path / "lines.cotan")
    return (
        pickle.loads(pickle.dumps(what)),
        ct.load(tmp_path / "lines.cotan"),
        ct.load(tmp_path / "lines.cotan", mmap=True),
    )


def test_lines_go_along(tmp_path):
    program, back = lined()
    for again in ways(program, tmp_path):
        assert again == program
        assert again.text(lines=True) == program.text(lines=True)
        assert "# test_saved.py:" in again.text(lines=True)
    for again in ways(back, tmp_path):
        for half in ("program", "forward"):
            text = getattr(again, half).text(lines=True)
            assert text == getattr(back, half).text(lines=True)
            assert "# test_saved.py:" in text
        assert all(again.report().lines)
        with pytest.raises(ct.NonFiniteError) as caught, ct.detect():
            np.asarray(again(np.inf)[0])
        assert caught.value.kind == "inf"


def test_without_lines_a_file_says_nothing_of_them(tmp_path):
    program, _ = lined()
    program.save(tmp_path / "a.cotan")
    ct.trace(lambda x: np.sum(np.exp(x) * 2.5), np.ones(3)).save(tmp_path / "b.cotan")
    assert b"test_saved.py" in (tmp_path / "a.cotan").read_bytes()
    assert b"line" not in (tmp_path / "b.cotan").read_bytes()


def test_damaged_lines_are_refused(tmp_path):
    program, _ = lined()
    path = tmp_path / "lines.cotan"
    program.save(path)
    whole = path.read_bytes()
    at = whole.index(b"test_saved.py")
    path.write_bytes(whole[:at] + b"T" + whole[at + 1 :])
    with pytest.raises(ValueError, match="is not what was written"):
        ct.load(path)


def test_what_is_nested_too_deeply_says_so(tmp_path):
    deep = np.ones(2)
    for _ in range(900):
        deep = [deep]

    def inner(x):
        while isinstance(x, list):
            x = x[0]
        return np.sum(x)

    _, back = ct.pullback(inner, deep)
    # Interpreters differ in how deep their own code goes.
    try:
        back.save(tmp_path / "deep.cotan")
    except pickle.PicklingError as error:
        assert "nested too deeply for a file" in str(error)
        assert not (tmp_path / "deep.cotan").exists()
    else:
        (tangent,) = ct.load(tmp_path / "deep.cotan")(1.0)
        assert inner(tangent) == 2


def test_subclasses_of_dict_are_dictionaries_in_a_file(tmp_path):
    model = OrderedDict(b=np.ones(2), a=np.zeros(2))
    _, back = ct.pullback(lambda m: np.sum(m["a"] * m["b"]), model)
    back.save(tmp_path / "ordered.cotan")
    assert type(pickle.loads(pickle.dumps(back))(1.0)[0]) is OrderedDict
    (plain,) = ct.load(tmp_path / "ordered.cotan")(1.0)
    assert type(plain) is dict
    assert list(plain) == ["b", "a"]
