"""What call sites say of the code that is running: the same for every version of Python.

Statements run often enough that the interpreter replaces instructions by special ones; what is said
must not change with that.
"""

import ast
import itertools
import linecache
import sys
import textwrap
import types
from pathlib import Path

import pytest

import cotan
from cotan._src.runtime import call_site

SRC = Path(cotan.__file__).parent
OFTEN = 40

_numbers = itertools.count()


def function_of(statements, names, module="a_program"):
    """Compile statements as a function of a module that has some names, with its source."""
    text = "def run(n=1):\n" + textwrap.indent(statements, "    ") + "\n"
    file = f"<call site {next(_numbers)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space = {"__name__": module, **names}
    exec(compile(text, file, "exec"), space)
    return space["run"]


class Spy:
    """Asks about the frame that uses it: calls it, looks items up, computes with it."""

    def __init__(self, ask):
        self._ask = ask
        self.answers = []

    def _look(self, *args, **kwargs):
        self.answers.append(self._ask(sys._getframe(1)))
        return self

    __call__ = __getitem__ = __setitem__ = __delitem__ = __add__ = __mod__ = _look

    def __index__(self):
        self.answers.append(self._ask(sys._getframe(1)))
        return 0

    def __float__(self):
        self.answers.append(self._ask(sys._getframe(1)))
        return 0.5

    def __str__(self):
        self.answers.append(self._ask(sys._getframe(1)))
        return "spy"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __iter__(self):
        return iter(())


def answers(statements, ask):
    """Give what is said while statements run, once it is the same however often they have run."""
    spy = Spy(ask)
    names = {
        "spy": spy,
        "other": spy,
        "holder": types.SimpleNamespace(spy=spy, items=[spy]),
        "table": {"spy": spy},
        "make": lambda *args: spy,
        "same": lambda *args: args[0],
        "arguments": (1, 2),
        "i": 1,
    }
    run = function_of(statements, names)
    run()
    first = list(spy.answers)
    assert first, "nobody asked"
    for _ in range(OFTEN):
        spy.answers.clear()
        run()
        assert spy.answers == first
    return first


# --------------------------------------------------------------------------------------------------
# Which name is called


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("spy(1)", "spy"),
        ("x = spy(1)", "spy"),
        ("holder.spy(1)", "spy"),
        ("spy(1, k=2)", "spy"),
        ("spy(*arguments)", "spy"),
        ("spy(*arguments, **{'k': 2})", "spy"),
        ("spy(make(1))", "spy"),
        ("make(spy(1))", "spy"),
        ("same(1), spy(2)", "spy"),
        ("spy(\n    1,\n    2,\n)", "spy"),
        ("[spy(k) for k in (1,)]", "spy"),
        ("(lambda: spy(1))()", "spy"),
        ("if spy(1):\n    pass", "spy"),
        ("return spy(1)", "spy"),
        ("other(1)", None),
        ("make(1)(2)", None),
        ("table['spy'](1)", None),
        ("holder.items[0](1)", None),
        ("other(same('spy'))", None),
        ("spy + 1", None),
        ("spy % 1", None),
        ("spy[i]", None),
    ],
)
def test_name_of_the_callee(statement, name):
    assert answers(statement, lambda frame: call_site.callee_name(frame, {"spy", "make"})) == [name]


def test_user_code_calls_by_name_and_libraries_do_not():
    spy = Spy(lambda frame: call_site.user_code_calls(frame, "spy"))
    for module in ("a_program", "scipy.stats"):
        function_of("spy(1)\nother(1)", {"spy": spy, "other": spy}, module)()
    assert spy.answers == [True, False, False, False]


# --------------------------------------------------------------------------------------------------
# Expressions


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("spy[i]", ["spy[i]"]),
        ("x = spy[i + 1]", ["spy[i + 1]"]),
        ("holder.spy[0]", ["holder.spy[0]"]),
        ("spy[i][0]", ["spy[i]", "spy[i][0]"]),
        ("spy[1:2]", ["spy[1:2]"]),
        ("spy[i, ..., None]", ["spy[i, ..., None]"]),
        ("spy[\n    i\n]", ["spy[i]"]),
        ("'é', spy[i]", ["spy[i]"]),
        ("spy[i] = 1", ["spy[i]"]),
        ("spy[1:2] = 1", ["spy[1:2]"]),
        ("del spy[i]", ["spy[i]"]),
        ("spy[i] += 1", ["spy[i]", None, "spy[i]"]),
        ("[1, 2][spy]", ["[1, 2][spy]"]),
        ("spy(1)", [None]),
        ("spy + 1", [None]),
    ],
)
def test_subscript_that_is_running(statement, written):
    def ask(frame):
        found = call_site.subscript(frame)
        return None if found is None else ast.unparse(found)

    assert answers(statement, ask) == written


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("spy(i + 1)", "spy(i + 1)"),
        ("x = same(spy(1), 2)", "spy(1)"),
        ("spy(\n    k = 'ö',\n)", "spy(k='ö')"),
        ("spy + 1", "spy + 1"),
        ("return holder.spy(1)", "holder.spy(1)"),
    ],
)
def test_expression_that_is_running(statement, written):
    def ask(frame):
        return ast.unparse(call_site.expression(frame))

    assert answers(statement, ask) == [written]


def test_no_expression_without_source():
    spy = Spy(call_site.expression)
    exec("spy(1)", {"spy": spy})
    assert spy.answers == [None]


class Owner:
    __slots__ = ("slot",)
    member = "a member"

    def __init__(self):
        self.slot = "a slot"

    @property
    def computed(self):
        raise AssertionError("code of the program ran twice")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("local", "a variable"),
        ("global_name", "a global"),
        ("owner.slot", "a slot"),
        ("owner.member", "a member"),
        ("table['key'][1]", "an item"),
        ("table['key'][at]", "an item"),
        ("pair[-1]", "the last"),
        ("-1", -1),
        ("(1, 2)", (1, 2)),
    ],
)
def test_meaning_of_an_expression(text, meaning):
    node = ast.parse(text, mode="eval").body
    assert call_site.resolve_expression(node, frame_with_names()) == meaning


@pytest.mark.parametrize(
    "text", ["owner.computed", "owner.missing", "missing", "table['none']", "len(pair)", "at + 1"]
)
def test_expressions_that_do_more_than_look_things_up(text):
    node = ast.parse(text, mode="eval").body
    with pytest.raises(call_site.UNRESOLVED):
        call_site.resolve_expression(node, frame_with_names())


def frame_with_names():
    names = {
        "local": "a variable",
        "owner": Owner(),
        "table": {"key": [None, "an item"]},
        "pair": ("the first", "the last"),
        "at": 1,
    }
    return types.SimpleNamespace(f_locals=names, f_globals={"global_name": "a global"})


# --------------------------------------------------------------------------------------------------
# What becomes of it


@pytest.mark.parametrize(
    ("statement", "is_dropped"),
    [
        ("spy(1)", True),
        ("spy(1, k=2)", True),
        ("spy(*arguments)", True),
        ("holder.spy(1)", True),
        ("spy(1)\nx = 2", True),
        ("for k in (1,):\n    spy(k)", True),
        ("if i:\n    spy(1)", True),
        ("x = spy(1)", False),
        ("return spy(1)", False),
        ("same(spy(1))", False),
        ("spy(1).answers", False),
        ("[spy(1)]", False),
        ("(lambda: spy(1))()", False),
        ("with spy(1):\n    pass", False),
        ("for k in spy(1):\n    pass", False),
        ("if spy(1):\n    pass", False),
    ],
)
def test_result_that_is_dropped(statement, is_dropped):
    assert answers(statement, call_site.result_is_dropped) == [is_dropped]


@pytest.mark.parametrize(
    ("statement", "formats"),
    [
        ("'%.2f' % spy", True),
        ("'%s' % spy", True),
        ("'%.1f and %.1f' % (i, spy)", True),
        ("text = '%f'\ntext %= spy", True),
        ("f'{spy}'", False),
        ("'{}'.format(spy)", False),
        ("str(spy)", False),
        ("float(spy)", False),
        ("spy + 1", False),
        ("spy[i]", False),
        ("(1, 2)[spy]", False),
    ],
)
def test_formatting(statement, formats):
    assert answers(statement, call_site.is_formatting) == [formats]


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("spy[i]", "BINARY_SUBSCR"),
        ("spy[i:]", "BINARY_SUBSCR"),
        ("spy[1:2]", "BINARY_SUBSCR"),
        ("spy[i] = 1", "STORE_SUBSCR"),
        ("spy[i:] = 1", "STORE_SUBSCR"),
        ("spy[:] = 1", "STORE_SUBSCR"),
        ("del spy[i]", "DELETE_SUBSCR"),
        ("spy + 1", "BINARY_OP"),
    ],
)
def test_operation_has_one_name_in_all_versions(statement, name):
    assert answers(statement, call_site.operation) == [name]


def test_shuffling():
    def shuffle(x):
        asked.append(call_site.is_shuffling(sys._getframe(1)))

    asked = []
    rng = types.SimpleNamespace(shuffle=shuffle, permuted=shuffle)
    function_of("rng.shuffle([1])\nrng.permuted([1])", {"rng": rng})()
    assert asked == [True, False]


# --------------------------------------------------------------------------------------------------
# Whose code it is


@pytest.mark.parametrize(
    ("module", "is_user", "calls"),
    [
        ("__main__", True, True),
        ("a_program.part", True, True),
        ("json", True, False),
        ("numpy.linalg", False, False),
        ("scipy", False, False),
        ("torch.nn", False, False),
        # Code of cotan's is passed over: this file is what calls it.
        ("cotan.numpy", False, True),
    ],
)
def test_whose_code_it_is(module, is_user, calls):
    spy = Spy(call_site.is_user_code)
    names = {"spy": spy, "called": call_site.called_from_user_code}
    assert function_of("spy(1)\nreturn called()", names, module)() == calls
    assert spy.answers == [is_user]


def test_code_that_runs_with_other_names_is_a_librarys():
    class Names(dict):
        pass

    spy = Spy(call_site.is_user_code)
    run = function_of("spy(1)", {"spy": spy})
    types.FunctionType(run.__code__, Names(run.__globals__), argdefs=(1,))()
    assert spy.answers == [False]


def test_warnings_name_the_line_of_the_user():
    warn = function_of("warn('careful')", {"warn": call_site.warn}, "cotan.something")
    with pytest.warns(UserWarning, match="careful") as caught:
        warn()
    assert [w.filename for w in caught] == [__file__]


# --------------------------------------------------------------------------------------------------
# Code that is not running


@pytest.mark.parametrize(
    ("statements", "names", "to_attributes"),
    [
        ("x = 1", set(), False),
        ("global a\na = 1", {"a"}, False),
        ("global a, b\na += 1\nb = a", {"a", "b"}, False),
        ("global a\nfor a in (1,):\n    pass", {"a"}, False),
        ("n.x = 1", set(), True),
        ("n.x += 1", set(), True),
        ("n[0] = 1", set(), False),
        ("n.append(1)", set(), False),
        ("def inner():\n    global a\n    a = n.x = 1", set(), False),
    ],
)
def test_assignments(statements, names, to_attributes):
    for _ in range(2):
        code = function_of(statements, {}).__code__
        assert call_site.assignments(code) == (names, to_attributes)


def test_assignments_to_one_of_many_globals():
    many = [f"name_{i}" for i in range(300)]
    text = f"global {', '.join(many)}\n" + "\n".join(f"{name} = 1" for name in many)
    assert call_site.assignments(function_of(text, {}).__code__).globals == set(many)


def test_position_of_a_generator():
    def counting():
        yield 1
        yield 2

    going = counting()
    start = call_site.position(going.gi_frame)
    assert call_site.position(going.gi_frame) == start
    next(going)
    first = call_site.position(going.gi_frame)
    next(going)
    assert len({start, first, call_site.position(going.gi_frame)}) == 3


# --------------------------------------------------------------------------------------------------
# One file that reads bytecode, and one that writes it

OF_BYTECODE = {"f_lasti", "co_code", "co_positions"}


def looks_at_bytecode(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import) and any(alias.name == "dis" for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "dis":
            return True
        if isinstance(node, ast.Attribute) and node.attr in OF_BYTECODE:
            return True
        if isinstance(node, ast.Constant) and node.value in OF_BYTECODE:
            return True
    return False


def test_only_call_sites_look_at_bytecode():
    found = {p.relative_to(SRC).as_posix() for p in SRC.rglob("*.py") if looks_at_bytecode(p)}
    assert found == {
        "_src/runtime/call_site.py",
        "_src/interpose/prologue.py",
        "_src/state/code_facts.py",
    }


def test_what_is_called_with_keywords_is_known_without_source():
    statement = "holder.spy(1, k=[2, 3])"
    spy = Spy(lambda frame: call_site.callee(frame).object)
    names = {"holder": types.SimpleNamespace(spy=spy)}
    exec(statement, names)
    assert spy.answers == [spy]
