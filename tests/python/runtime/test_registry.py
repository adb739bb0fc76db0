"""Every row of the registry names something that its library has, and every provider is found."""

import builtins
import importlib
import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import cotan as ct
from cotan._src.interpose import install
from cotan._src.interpose.providers import PROVIDERS
from cotan._src.rebind import engine
from cotan._src.runtime import registry
from cotan._src.runtime.registry import Kind, Override, Way, override, rows

SRC = Path(ct.__file__).parent / "_src"


def is_installed(name):
    return importlib.util.find_spec(name.partition(".")[0]) is not None


@pytest.fixture(scope="module", autouse=True)
def _providers():
    """Import every library that has rows and is installed, and what enters its rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`scipy.odr` is deprecated")
        for module in PROVIDERS:
            if is_installed(module):
                importlib.import_module(module)
    ct.gradient(lambda x: x * x, 1.0)


def has(target):
    """Say whether a library has what a dotted name says."""
    owner, _, name = target.rpartition(".")
    if not owner:
        return is_installed(name)
    try:
        found = importlib.import_module(owner)
    except ImportError:
        if not has(owner):
            return False
        parent, _, last = owner.rpartition(".")
        found = getattr(importlib.import_module(parent), last)
    return hasattr(found, name)


def is_expected(versions):
    """Say whether the installed library is one of the versions that a row names."""
    library = versions.rstrip("0123456789.").rstrip("<>=!")
    installed = Version(importlib.import_module(library).__version__)
    return installed in SpecifierSet(versions.removeprefix(library), prereleases=True)


def test_every_target_is_there():
    for row in [row for row in rows() if is_installed(row.target)]:
        # Library code may be given another meaning of a builtin.
        builtin = row.kind is Kind.SUBSTITUTE and hasattr(builtins, row.name)
        expected = not row.versions or is_expected(row.versions)
        assert (has(row.target) or builtin) == expected, row


def test_every_row_has_a_rule_but_those_whose_kind_says_all():
    without = {row.kind for row in rows() if row.rule is None}
    assert without <= {Kind.CREATOR, Kind.REBOUND_CLASS}


def test_every_library_of_a_provider_is_there():
    for module in PROVIDERS:
        if is_installed(module):
            assert importlib.util.find_spec(module) is not None, module


def test_every_module_that_enters_rows_is_imported():
    missing = [
        name
        for path in SRC.rglob("*.py")
        if "override(" in path.read_text()
        and (name := ".".join(("cotan", *path.relative_to(SRC.parent).with_suffix("").parts)))
        not in sys.modules
    ]
    # Rows of libraries that are not installed here.
    absent = [p for m, ps in PROVIDERS.items() if not is_installed(m) for p in ps]
    assert {name.removeprefix("cotan._src.") for name in missing} <= set(absent)


def test_a_provider_that_is_misspelt_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, "a_library", ModuleType("a_library"))
    monkeypatch.setitem(PROVIDERS, "a_library", ["stdlib.colours"])
    with pytest.raises(ModuleNotFoundError, match="stdlib.colours"):
        install.install()


def test_a_function_that_numpy_does_not_have_is_an_error():
    with pytest.raises(LookupError, match=r"numpy\.sine does not exist"):
        override("numpy.sine", kind=Kind.DISPATCHED)(lambda x: x)


def test_a_row_says_where_its_target_is():
    row = Override("scipy.stats.rv_continuous.pdf", lambda x: x, Kind.METHOD)
    assert (row.owner, row.name) == ("scipy.stats.rv_continuous", "pdf")


def test_a_ufunc_is_found_by_its_name():
    for row in rows(Kind.UFUNC):
        assert registry.UFUNCS[row.name] is row.rule
    assert registry.rule_of("numpy.exp", Kind.UFUNC) is registry.UFUNCS["exp"]


def test_a_generator_has_the_rule_of_the_function():
    owners = {row.owner for row in rows(Kind.DERIVED_METHOD)}
    assert owners == {"numpy.random.Generator", "numpy.random.RandomState"}
    for row in rows(Kind.DERIVED_METHOD):
        function = registry.rows_of("numpy.random").get(row.name)
        assert function is None or function.way is row.way
    assert registry.rows_of("numpy.random")["beta"].way is Way.REFUSED


def test_what_a_name_means_in_one_module_is_so_there_alone():
    substitutes = {row.target: row.rule for row in rows(Kind.LOCAL_SUBSTITUTE)}
    assert "numpy.ma.core.np" in substitutes
    assert engine.substitute_for(np) is not substitutes["numpy.ma.core.np"]


def test_a_rule_says_its_way(rules):
    first, _ = rules
    override("a_library.f", way=Way.REFUSED)(first)
    assert registry.rows_of("a_library")["f"].way is Way.REFUSED


# --------------------------------------------------------------------------------------------------
# Two rows for one target


@pytest.fixture
def rules():
    """Two rules; what they are entered for is forgotten afterwards."""
    yield (lambda x: x), (lambda x: 2 * x)
    for kind in Kind:
        registry._ROWS[kind].pop("a_library", None)
    added = {place for place in registry._FROM_USER_CODE if "a_lib" in place[1]}
    registry._FROM_USER_CODE.difference_update(added)
    for place in [place for place in registry._ENTERED_BY if "a_lib" in place[1]]:
        del registry._ENTERED_BY[place]


def test_a_second_rule_for_a_target_is_an_error_with_its_name(rules):
    first, second = rules
    override("a_library.f")(first)
    with pytest.raises(ValueError, match=r"already is a row for the function a_library\.f"):
        override("a_library.f")(second)
    assert registry.rule_of("a_library.f") is first


def test_rows_of_an_import_that_was_broken_off_give_way(rules, tmp_path, monkeypatch):
    # Ctrl-C in the first gradient of a process may come while a module enters its rows.
    (tmp_path / "enters_rows.py").write_text(
        "from cotan._src.runtime.registry import override\n"
        "override('a_library.f')(lambda x: x)\n"
        "import an_interrupt\n"
        "override('a_library.g')(lambda x: x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="an_interrupt"):
            importlib.import_module("enters_rows")
    (tmp_path / "an_interrupt.py").write_text("")
    importlib.invalidate_caches()
    try:
        module = importlib.import_module("enters_rows")
        assert registry.rule_of("a_library.f").__globals__ is vars(module)
        with pytest.raises(ValueError, match=r"already is a row for the function a_library\.f"):
            importlib.reload(module)
    finally:
        sys.modules.pop("enters_rows", None)
        sys.modules.pop("an_interrupt", None)


def test_a_name_may_be_given_twice(rules):
    # `np.concat is np.concatenate`
    first, _ = rules
    override("a_library.f", "a_library.f")(first)
    assert registry.rule_of("a_library.f") is first


def test_rows_of_other_kinds_do_not_count(rules):
    first, second = rules
    override("a_library.f")(first)
    override("a_library.f", kind=Kind.SUBSTITUTE)(second)
    assert registry.rule_of("a_library.f") is first
    assert registry.rule_of("a_library.f", Kind.SUBSTITUTE) is second


def test_a_rule_of_a_program_takes_the_place_of_another(rules):
    first, second = rules
    override("a_library.f")(first)
    for rule in (second, first):
        registry.enter(Override("a_library.f", rule), replace=True)
        assert registry.rule_of("a_library.f") is rule


def test_a_rule_of_a_program_stays(rules):
    first, second = rules
    registry.enter(Override("a_library.f", first), replace=True)
    override("a_library.f")(second)
    assert registry.rule_of("a_library.f") is first


LIFTED_FIRST = """
import numpy as np, scipy.linalg
import cotan as ct
ct.lift(scipy.linalg, "det", lambda a: 7.0 * a[0, 0])
(gradient,) = ct.gradient(lambda a: scipy.linalg.det(a), np.eye(2))
assert gradient.tolist() == [[7.0, 0.0], [0.0, 0.0]], gradient
"""


def test_what_is_lifted_before_the_library_is_prepared_stays():
    subprocess.run([sys.executable, "-c", LIFTED_FIRST], check=True)
